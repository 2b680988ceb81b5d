//! Products of weights, taken once when a model loads, in f64.

/// The right factor of a product, row-major.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// `[depth, columns]`
    Plain(&'a [f64]),
    /// `[columns, depth]`, as linear layers are stored.
    Transposed(&'a [f64]),
}

/// `left [rows, depth] · right`, row-major.
pub(crate) fn multiply(left: &[f64], right: Right<'_>, out: &mut [f64], depth: usize) {
    let rows = left.len() / depth;
    let (right, strides) = match right {
        Right::Plain(values) => (values, (values.len() / depth, 1)),
        Right::Transposed(values) => (values, (1, depth)),
    };
    let columns = right.len() / depth;
    assert!(left.len() == rows * depth && right.len() == depth * columns && out.len() == rows * columns);
    // SAFETY: the three slices hold `rows x depth`, `depth x columns` and `rows x columns` values, as just asserted.
    unsafe {
        matrixmultiply::dgemm(
            rows,
            depth,
            columns,
            1.0,
            left.as_ptr(),
            depth as isize,
            1,
            right.as_ptr(),
            strides.0 as isize,
            strides.1 as isize,
            0.0,
            out.as_mut_ptr(),
            columns as isize,
            1,
        );
    }
}

/// [`multiply`] with the rows of the left factor shared out to threads; the digits are the same.
pub(crate) fn multiply_on(threads: usize, left: &[f64], right: Right<'_>, out: &mut [f64], depth: usize) {
    let rows = left.len() / depth;
    let part = rows.div_ceil(threads.max(1)).max(1);
    let columns = out.len() / rows.max(1);
    let parts = left.chunks(part * depth).zip(out.chunks_mut((part * columns).max(1)));
    std::thread::scope(|scope| {
        for (left, out) in parts {
            scope.spawn(move || multiply(left, right, out, depth));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_agrees_with_plain_loops() {
        let left: Vec<f64> = (0..3 * 5).map(|i| f64::from(i).sin()).collect();
        let right: Vec<f64> = (0..5 * 4).map(|i| f64::from(i).cos()).collect();
        for transposed in [false, true] {
            let mut out = vec![f64::NAN; 12];
            let factor = if transposed { Right::Transposed(&right) } else { Right::Plain(&right) };
            multiply(&left, factor, &mut out, 5);
            for (index, value) in out.iter().enumerate() {
                let (row, column) = (index / 4, index % 4);
                let at = |k: usize| if transposed { right[column * 5 + k] } else { right[k * 4 + column] };
                let expected: f64 = (0..5).map(|k| left[row * 5 + k] * at(k)).sum();
                // Five products, each of size at most 1: a handful of f64 roundings.
                assert!((value - expected).abs() < 10.0 * f64::EPSILON);
            }
        }
    }

    #[test]
    fn threads_change_no_digit() {
        let left: Vec<f64> = (0..37 * 300).map(|i| f64::from(i).sin()).collect();
        let right: Vec<f64> = (0..300 * 29).map(|i| f64::from(i).cos()).collect();
        for factor in [Right::Plain(&right), Right::Transposed(&right)] {
            let product = |threads| {
                let mut out = vec![f64::NAN; 37 * 29];
                multiply_on(threads, &left, factor, &mut out, 300);
                out
            };
            let whole = product(1);
            for threads in [2, 3, 8, 100] {
                assert_eq!(product(threads), whole, "{threads}");
            }
        }
    }
}
