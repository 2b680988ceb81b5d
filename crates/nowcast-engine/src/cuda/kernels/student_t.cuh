// Location-scale Student-t distributions with the operations of `student_t/component.rs`, one by one; the formulas are
// explained there.
#pragma once

#include "elementary.cuh"

#define SHIFT 16
#define TERMS 7
#define GAMMA_COEFFICIENTS 12
// Numbers of a component that do not depend on the point: weight, degrees of freedom, location, scale, density at the
// location, the terms of the recurrence, and the coefficients beside `sqrt(N u) exp(-N u)`.
#define COMPONENT_NUMBERS (5 + SHIFT + GAMMA_COEFFICIENTS)
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000ll)
#define FARTHEST 1e150
#define FARTHEST_ORDER 1e4

// Taylor coefficients of `(2 sinh(s / 2) / s)^(-1/2)` in `s^2`.
__device__ constexpr double sinh_series(int n) {
    const double series[TERMS] = {1.0,
                                  -1.0 / 48.0,
                                  1.0 / 2560.0,
                                  -61.0 / 7741440.0,
                                  1261.0 / 7431782400.0,
                                  -79.0 / 20761804800.0,
                                  66643.0 / 761775532277760.0};
    return series[n];
}

// The rising factorial `(1/2)_n`.
__device__ constexpr double rising_half(int n) {
    double product = 1.0;
    for (int k = 0; k < n; k++) product *= k + 0.5;
    return product;
}

// Highest n first: `p_n (1/2)_(2n)`, and the same over `(1/2)_(m+1)` for `2n > m`.
struct Series {
    double beta[TERMS];
    double gamma[GAMMA_COEFFICIENTS][TERMS];
};

__device__ constexpr Series make_series() {
    Series series = {};
    for (int n = 0; n < TERMS; n++) series.beta[TERMS - 1 - n] = sinh_series(n) * rising_half(2 * n);
    for (int m = 0; m < GAMMA_COEFFICIENTS; m++) {
        for (int n = m / 2 + 1; n < TERMS; n++) {
            series.gamma[m][TERMS - 1 - n] = series.beta[TERMS - 1 - n] / rising_half(m + 1);
        }
    }
    return series;
}

__constant__ Series SERIES = make_series();

// `(1 + 2 v) erfcx(v)` as a polynomial in `(v - 4) / (v + 4)`, highest power first.
__constant__ double SCALED_ERFC[23] = {
    1.5738283774192037e-09, -6.9926126813398e-09, -1.6371779763566967e-08, 9.295292277973951e-08,
    7.115337800585303e-08, -8.020193766522085e-07, 2.9801353803031333e-07, 5.689537732302816e-06,
    -1.1225101875659178e-05, -2.438779085759055e-05, 0.00015062309720018628, -0.00019926095315041177,
    -0.000757773707063825, 0.005031971002298884, -0.016197733981455194, 0.03716751538635946,
    -0.06633036582031154, 0.09373283501077742, -0.10103906603586531, 0.06809705425421975,
    0.015379652102610473, -0.1396211168405572, 1.2329951186255526};

template <int N>
__device__ inline double polynomial(const double* coefficients, double x) {
    double sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < N; index++) sum = fma(sum, x, coefficients[index]);
    return sum;
}

// What a component is at one point.
struct ComponentValues {
    double lower;
    double upper;
    double density;
    double slope;
    double rate;
};

// One component of a mixture of `stride`, its numbers that far apart.
struct Component {
    double* numbers;
    int stride;

    __device__ double& weight() const { return numbers[0]; }
    __device__ double& degrees_of_freedom() const { return numbers[stride]; }
    __device__ double& location() const { return numbers[2 * stride]; }
    __device__ double& scale() const { return numbers[3 * stride]; }
    __device__ double& peak() const { return numbers[4 * stride]; }
    __device__ double& recurrence(int j) const { return numbers[(5 + j) * stride]; }
    __device__ double& gamma(int m) const { return numbers[(5 + SHIFT + m) * stride]; }

    // Fills in what follows from degrees of freedom and scale.
    __device__ void prepare() const {
        double nu = degrees_of_freedom(), a = 0.5 * nu;
        double order = a + (SHIFT - 0.25);
        double inverse_square = 1.0 / (order * order);
        double sum = polynomial<TERMS>(SERIES.beta, inverse_square);
        double normalisation = 1.0 / (1.7724538509055159 * sum);
        for (int m = 0; m < GAMMA_COEFFICIENTS; m++) {
            gamma(m) = normalisation * polynomial<TERMS>(SERIES.gamma[m], inverse_square);
        }
        double inverse_beta = sqrt(order) * normalisation;
        for (int j = 0; j < SHIFT; j++) inverse_beta *= (a + j) / (a + (j + 0.5));
        double term = inverse_beta / a;
        for (int j = 0; j < SHIFT; j++) {
            recurrence(j) = term;
            term *= (a + (j + 0.5)) / (a + (j + 1.0));
        }
        peak() = inverse_beta / (sqrt(nu) * scale());
    }

    // Values at a finite point.
    __device__ ComponentValues evaluate(double point) const {
        double nu = degrees_of_freedom();
        double t = (point - location()) / scale();
        t = t < -FARTHEST ? -FARTHEST : t;
        t = t > FARTHEST ? FARTHEST : t;
        double ratio = t * t / nu, stretch = 1.0 + ratio;
        double x = 1.0 / stretch, root = sqrt(stretch);
        double u = fma(ratio - (stretch - 1.0), x, logarithm(stretch));
        double power = exponential(-0.5 * nu * u);
        double series = recurrence(SHIFT - 1);
#pragma unroll
        for (int j = SHIFT - 2; j >= 0; j--) series = fma(series, x, recurrence(j));
        double z = (0.5 * nu + (SHIFT - 0.25)) * u;
        z = z < FARTHEST_ORDER ? z : FARTHEST_ORDER;
        double v = sqrt(z);
        double elementary = gamma(GAMMA_COEFFICIENTS - 1);
#pragma unroll
        for (int m = GAMMA_COEFFICIENTS - 2; m >= 0; m--) elementary = fma(elementary, z, gamma(m));
        double scaled_erfc = polynomial<23>(SCALED_ERFC, (v - 4.0) / (v + 4.0)) / (1.0 + 2.0 * v);
        double x4 = x * x * (x * x), x16 = x4 * x4 * (x4 * x4);
        double remainder = x16 * sqrt(root) * fma(v, elementary, scaled_erfc);
        double sine = sqrt(ratio * x);
        double tail = 0.5 * power * fma(sine, series, remainder);
        double density = peak() * power / root;
        double pull = (nu + 1.0) / nu * x / scale();
        bool before = t < 0.0;
        return ComponentValues{before ? tail : 1.0 - tail, before ? 1.0 - tail : tail, density, -density * (t * pull),
                               fabs(t) * pull + 2.0 * root * x / scale()};
    }
};
