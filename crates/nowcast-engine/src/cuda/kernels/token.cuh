#pragma once

// Where a model's sums have overflowed; `NO_TOKEN` in token_sampling.rs.
#define NO_TOKEN (-1)
