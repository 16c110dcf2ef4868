#pragma once

#include "lowering.h"

namespace dgx::lowering::lowerings {

/// One function per ATen op; the table (lowering_table.cc) says which serves which name.

// lowerings_views.cc: no work, or a copy.
void alias(Call& call);
void reshape(Call& call);
void transpose_two(Call& call);
void transpose(Call& call);
void permute(Call& call);
void expand(Call& call);
void select(Call& call);
void slice(Call& call);
void slice_backward(Call& call);
void select_backward(Call& call);
void flip(Call& call);
void split(Call& call);
void split_with_sizes(Call& call);
void unbind(Call& call);
void cat(Call& call);
void stack(Call& call);
void filled(Call& call);
void zeros(Call& call);
void ones(Call& call);
void arange(Call& call);
void convert(Call& call);

// lowerings_pieces.cc: parts of tensors, put together and moved.
void tril(Call& call);
void triu(Call& call);
void roll(Call& call);
void repeat(Call& call);
void diagonal(Call& call);
void trace(Call& call);
void diagonal_backward(Call& call);
void diagonal_scatter(Call& call);
void diag_embed(Call& call);
void slice_scatter(Call& call);
void select_scatter(Call& call);
void unfold(Call& call);
void unfold_backward(Call& call);
void eye(Call& call);
void linspace(Call& call);

// lowerings_indexing.cc: elements at indices held in tensors.
void embedding(Call& call);
void embedding_backward(Call& call);
void index_select(Call& call);
void take(Call& call);
void gather(Call& call);
void index(Call& call);
void index_put(Call& call);
void put(Call& call);
void index_add(Call& call);
void index_copy(Call& call);
void index_fill(Call& call);
void scatter(Call& call);
void scatter_add(Call& call);
void scatter_reduce(Call& call);

// lowerings_arithmetic.cc: one scalar expression per element.
void add(Call& call);
void sub(Call& call);
void rsub(Call& call);
void mul(Call& call);
void div(Call& call);
void reciprocal(Call& call);
void neg(Call& call);
void abs(Call& call);
void exp(Call& call);
void expm1(Call& call);
void log(Call& call);
void log1p(Call& call);
void sqrt(Call& call);
void rsqrt(Call& call);
void sin(Call& call);
void cos(Call& call);
void erf(Call& call);
void floor(Call& call);
void trunc(Call& call);
void round(Call& call);
void square(Call& call);
void addcmul(Call& call);
void addcdiv(Call& call);
void lerp(Call& call);
void maximum(Call& call);
void minimum(Call& call);
void clamp(Call& call);
void eq(Call& call);
void ne(Call& call);
void lt(Call& call);
void le(Call& call);
void gt(Call& call);
void ge(Call& call);
void logical_and(Call& call);
void logical_or(Call& call);
void logical_not(Call& call);
void logical_xor(Call& call);
void bitwise_and(Call& call);
void bitwise_or(Call& call);
void bitwise_xor(Call& call);
void bitwise_not(Call& call);
void where(Call& call);
void masked_fill(Call& call);
void sign(Call& call);

// lowerings_activations.cc
void relu(Call& call);
void threshold_backward(Call& call);
void gelu(Call& call);
void gelu_backward(Call& call);
void tanh(Call& call);
void tanh_backward(Call& call);
void sigmoid(Call& call);
void sigmoid_backward(Call& call);
void silu(Call& call);
void silu_backward(Call& call);
void leaky_relu(Call& call);
void leaky_relu_backward(Call& call);
void elu(Call& call);
void elu_backward(Call& call);
void softplus(Call& call);
void softplus_backward(Call& call);
void hardtanh(Call& call);
void hardtanh_backward(Call& call);
void threshold(Call& call);
void celu(Call& call);
void hardsigmoid(Call& call);
void hardsigmoid_backward(Call& call);
void hardswish(Call& call);
void hardswish_backward(Call& call);
void mish(Call& call);
void mish_backward(Call& call);
void hardshrink(Call& call);
void shrink_backward(Call& call);
void softshrink(Call& call);
void log_sigmoid(Call& call);
void log_sigmoid_backward(Call& call);
void prelu(Call& call);
void prelu_backward(Call& call);
void glu(Call& call);
void glu_backward(Call& call);

// lowerings_statistics.cc: reductions made of others, and running reductions.
void var(Call& call);
void std_deviation(Call& call);
void var_mean(Call& call);
void std_mean(Call& call);
void vector_norm(Call& call);
void logsumexp(Call& call);
void prod(Call& call);
void amin(Call& call);
void argmin(Call& call);
void greatest(Call& call);
void least(Call& call);
void any(Call& call);
void all(Call& call);
void count_nonzero(Call& call);
void nan_to_num(Call& call);
void cumsum(Call& call);
void cumprod(Call& call);

// lowerings_sorting.cc: order by comparing all elements with all.
void sort(Call& call);
void topk(Call& call);
void kthvalue(Call& call);
void median(Call& call);

// lowerings_products.cc
void mm(Call& call);
void bmm(Call& call);
void baddbmm(Call& call);
void addbmm(Call& call);
void mv(Call& call);
void addmv(Call& call);
void inner_product(Call& call);
void addr(Call& call);
void trilinear(Call& call);
void addmm(Call& call);
void linear(Call& call);

// lowerings_convolution.cc: any stride, padding, dilation and groups, transposed too, in one to three
// dimensions.
void convolution(Call& call);
void convolution_backward(Call& call);

// lowerings_pooling.cc: in one to three dimensions.
void max_pool(Call& call);
void max_pool_backward(Call& call);
void adaptive_max_pool(Call& call);
void adaptive_max_pool_backward(Call& call);
void max_unpool(Call& call);
void avg_pool(Call& call);
void avg_pool_backward(Call& call);
void adaptive_avg_pool(Call& call);
void adaptive_avg_pool_backward(Call& call);

// lowerings_padding.cc
void constant_pad(Call& call);
void reflection_pad(Call& call);
void reflection_pad_backward(Call& call);
void replication_pad(Call& call);
void replication_pad_backward(Call& call);

// lowerings_patches.cc: pixels and channels in another order, windows as columns.
void pixel_shuffle(Call& call);
void pixel_unshuffle(Call& call);
void channel_shuffle(Call& call);
void im2col(Call& call);
void col2im(Call& call);

// lowerings_upsample.cc: in one to three dimensions.
void upsample_nearest(Call& call);
void upsample_nearest_backward(Call& call);
void upsample_linear(Call& call);
void upsample_linear_backward(Call& call);

// lowerings_reductions.cc
void sum(Call& call);
void mean(Call& call);
void amax(Call& call);
void argmax(Call& call);
void softmax(Call& call);
void safe_softmax(Call& call);
void softmax_backward(Call& call);
void log_softmax(Call& call);
void log_softmax_backward(Call& call);
void layer_norm(Call& call);
void layer_norm_backward(Call& call);

// lowerings_functions.cc: functions of one or two numbers.
void exp2(Call& call);
void log2(Call& call);
void log10(Call& call);
void erfc(Call& call);
void tan(Call& call);
void cosh(Call& call);
void sinh(Call& call);
void asinh(Call& call);
void acosh(Call& call);
void atanh(Call& call);
void ceil(Call& call);
void frac(Call& call);
void logit(Call& call);
void logit_backward(Call& call);
void pow(Call& call);
void hypot(Call& call);
void xlogy(Call& call);
void logaddexp(Call& call);
void fmod(Call& call);
void remainder(Call& call);
void rounded_div(Call& call);
void fmax(Call& call);
void fmin(Call& call);
void copysign(Call& call);
void signbit(Call& call);
void isnan(Call& call);
void isinf(Call& call);
void isfinite(Call& call);
void heaviside(Call& call);
void deg2rad(Call& call);
void rad2deg(Call& call);
void sinc(Call& call);

// lowerings_losses.cc
void mse_loss(Call& call);
void mse_loss_backward(Call& call);
void smooth_l1_loss(Call& call);
void smooth_l1_loss_backward(Call& call);
void huber_loss(Call& call);
void huber_loss_backward(Call& call);
void soft_margin_loss(Call& call);
void soft_margin_loss_backward(Call& call);
void binary_cross_entropy(Call& call);
void binary_cross_entropy_backward(Call& call);
void bce_with_logits(Call& call);
void nll_loss(Call& call);
void nll_loss_backward(Call& call);

// lowerings_norms.cc
void batch_norm(Call& call);
void batch_norm_backward(Call& call);
void group_norm(Call& call);
void group_norm_backward(Call& call);
void rms_norm(Call& call);
void rms_norm_backward(Call& call);
void weight_norm(Call& call);
void weight_norm_backward(Call& call);

// lowerings_random.cc: from the dropout streams.
void bernoulli(Call& call);
void rand(Call& call);
void uniform(Call& call);
void randn(Call& call);
void normal(Call& call);
void randint(Call& call);
void exponential(Call& call);
void rrelu(Call& call);
void rrelu_backward(Call& call);
void native_dropout(Call& call);
void native_dropout_backward(Call& call);

}  // namespace dgx::lowering::lowerings
