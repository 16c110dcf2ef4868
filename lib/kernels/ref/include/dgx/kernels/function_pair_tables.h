#pragma once

#include <cstdint>

#include "dgx/core/host_device.h"

// Written by make_function_tables.py. Constants of the elementary functions;
// function_pairs.h says what they are for.
// clang-format off

namespace dgx::kernels {

/// A number as the sum of two floats.
struct alignas(8) FloatPair {
  float head;
  float tail;
};
struct alignas(16) FloatLogarithm {
  float reciprocal;
  float head;
  float tail;
};
struct alignas(16) FloatErf {
  FloatPair sums[3];
  float further[5];
};

inline constexpr float kPairsThirtyTwoOverLn2 = 0x1.715476p+5F;
inline constexpr float kPairsLn2Over32 = 0x1.62e43p-6F;
inline constexpr float kPairsLn2Over32Tail = -0x1.05c61p-34F;

// 2^(i/32).
alignas(128) DGX_TABLE FloatPair kPairsExpTable[32] = {
    {0x1p+0F, 0x0p+0F},
    {0x1.059b0ep+0F, -0x1.9d4f52p-25F},
    {0x1.0b5586p+0F, 0x1.9f3122p-25F},
    {0x1.11301ep+0F, -0x1.fdb496p-25F},
    {0x1.172b84p+0F, -0x1.c15742p-27F},
    {0x1.1d4874p+0F, -0x1.d2e8cap-25F},
    {0x1.2387a6p+0F, 0x1.ceac48p-25F},
    {0x1.29e9ep+0F, -0x1.5c0424p-25F},
    {0x1.306fep+0F, 0x1.4636e2p-25F},
    {0x1.371a74p+0F, -0x1.18aac6p-25F},
    {0x1.3dea64p+0F, 0x1.824684p-25F},
    {0x1.44e086p+0F, 0x1.8624b4p-30F},
    {0x1.4bfdaep+0F, -0x1.593abcp-25F},
    {0x1.5342b6p+0F, -0x1.2c561p-25F},
    {0x1.5ab07ep+0F, -0x1.5bd5ecp-27F},
    {0x1.6247ecp+0F, -0x1.f8b55p-25F},
    {0x1.6a09e6p+0F, 0x1.9fcef4p-26F},
    {0x1.71f75ep+0F, 0x1.1d8beep-25F},
    {0x1.7a1148p+0F, -0x1.829fdp-25F},
    {0x1.82589ap+0F, -0x1.accc7cp-26F},
    {0x1.8ace54p+0F, 0x1.15506ep-27F},
    {0x1.93737cp+0F, -0x1.e64744p-25F},
    {0x1.9c4918p+0F, 0x1.51f848p-27F},
    {0x1.a5503cp+0F, -0x1.b83b54p-25F},
    {0x1.ae89fap+0F, -0x1.a94b14p-26F},
    {0x1.b7f77p+0F, -0x1.a09438p-25F},
    {0x1.c199bep+0F, -0x1.3d56b2p-27F},
    {0x1.cb720ep+0F, -0x1.8837ccp-27F},
    {0x1.d5818ep+0F, -0x1.822dbcp-27F},
    {0x1.dfc974p+0F, -0x1.908c94p-25F},
    {0x1.ea4afap+0F, 0x1.52486cp-27F},
    {0x1.f50766p+0F, -0x1.246ebp-26F},
};

// (e^r - 1 - r - r^2/2) / r^3 for |r| <= ln(2)/64.
DGX_TABLE float kPairsExpPolynomial[3] = {0x1.555556p-3F, 0x1.555596p-5F, 0x1.111136p-7F};

inline constexpr float kPairsLn2 = 0x1.62e43p-1F;
inline constexpr float kPairsLn2Tail = -0x1.05c61p-29F;
inline constexpr std::uint32_t kPairsLogLowBits = 0x3f3e0000;  // of 0.7421875

// c near 1/m in the interval, and -log(c).
alignas(128) DGX_TABLE FloatLogarithm kPairsLogTable[32] = {
    {0x1.555556p+0F, -0x1.269624p-2F, 0x1.d9648ep-27F},
    {0x1.4e5e0ap+0F, -0x1.1178e6p-2F, -0x1.84fc9p-27F},
    {0x1.47ae14p+0F, -0x1.f991c4p-3F, 0x1.a62648p-30F},
    {0x1.414142p+0F, -0x1.d10384p-3F, 0x1.9aa19cp-31F},
    {0x1.3b13b2p+0F, -0x1.a93ed8p-3F, -0x1.915b3ap-28F},
    {0x1.3521dp+0F, -0x1.823c18p-3F, -0x1.5468fp-29F},
    {0x1.2f684cp+0F, -0x1.5bf408p-3F, 0x1.2af094p-29F},
    {0x1.29e412p+0F, -0x1.365fc6p-3F, -0x1.82b2p-28F},
    {0x1.24924ap+0F, -0x1.1178eep-3F, -0x1.13f22cp-30F},
    {0x1.1f7048p+0F, -0x1.da7278p-4F, -0x1.c2235p-31F},
    {0x1.1a7b96p+0F, -0x1.9335e4p-4F, -0x1.ab2932p-29F},
    {0x1.15b1e6p+0F, -0x1.4d3116p-4F, -0x1.481facp-30F},
    {0x1.111112p+0F, -0x1.08599ap-4F, 0x1.4c38ccp-29F},
    {0x1.0c9714p+0F, -0x1.894a84p-5F, 0x1.6c09b4p-30F},
    {0x1.08421p+0F, -0x1.0415c8p-5F, -0x1.3ce88p-30F},
    {0x1.041042p+0F, -0x1.0205a4p-6F, 0x1.db2a66p-32F},
    {0x1p+0F, 0x0p+0F, 0x0p+0F},
    {0x1.f07c2p-1F, 0x1.f8299p-6F, 0x1.cf067p-31F},
    {0x1.e1e1e2p-1F, 0x1.f0a30ap-5F, 0x1.162a76p-37F},
    {0x1.d41d42p-1F, 0x1.6f0d28p-4F, -0x1.a35296p-29F},
    {0x1.c71c72p-1F, 0x1.e27074p-4F, 0x1.c55e5cp-29F},
    {0x1.bacf92p-1F, 0x1.29552cp-3F, 0x1.07fd4cp-29F},
    {0x1.af286cp-1F, 0x1.5ff306p-3F, 0x1.4f27aap-32F},
    {0x1.a41a42p-1F, 0x1.9525a8p-3F, 0x1.e8ad7p-32F},
    {0x1.99999ap-1F, 0x1.c8ff7ap-3F, 0x1.e6a68ap-29F},
    {0x1.8f9c18p-1F, 0x1.fb918cp-3F, -0x1.50e0dep-30F},
    {0x1.861862p-1F, 0x1.1675cap-2F, -0x1.0a8b3ep-27F},
    {0x1.7d05f4p-1F, 0x1.2e8e2cp-2F, -0x1.1ee2dp-30F},
    {0x1.745d18p-1F, 0x1.4618bap-2F, 0x1.0e2f66p-29F},
    {0x1.6c16c2p-1F, 0x1.5d1bdap-2F, 0x1.560274p-28F},
    {0x1.642c86p-1F, 0x1.739d7ep-2F, 0x1.5de804p-29F},
    {0x1.5c9882p-1F, 0x1.89a33ap-2F, 0x1.18284cp-27F},
};

// (log(1 + r) - r + r^2/2) / r^3 for -0.01515 <= r <= 0.01562.
DGX_TABLE float kPairsLogPolynomial[5] = {0x1.555556p-2F, -0x1p-2F, 0x1.99999cp-3F, -0x1.5568bp-3F, 0x1.2455fap-3F};

// erf(a)/a for |a - i/16| <= 1/32: coefficients of d^k, d = a - i/16, the first three as sums.
alignas(128) DGX_TABLE FloatErf kPairsErfTable[64] = {
    {{{0x1.20dd76p+0F, -0x1.f7ac92p-25F}, {-0x1.b7bd1cp-98F, 0x1.ba36fap-123F}, {-0x1.812746p-2F, -0x1.60648ap-27F}}, {0x1.1b0312p-84F, 0x1.ce2f2p-4F, -0x1.09ffc6p-73F, -0x1.b8021ap-6F, 0x1.1612d8p-64F}},
    {{{0x1.207d48p+0F, 0x1.d20cbp-29F}, {-0x1.804082p-5F, 0x1.b63d32p-31F}, {-0x1.7e739cp-2F, -0x1.2361cp-30F}}, {0x1.cc0a14p-6F, 0x1.c7c24ep-4F, -0x1.47cc4p-7F, -0x1.aeb246p-6F, 0x1.52f3eep-9F}},
    {{{0x1.1f5e1ap+0F, 0x1.ae1dc4p-27F}, {-0x1.7d900cp-4F, 0x1.85c598p-30F}, {-0x1.766bd2p-2F, 0x1.860f0ap-27F}}, {0x1.c5a8ep-5F, 0x1.b4c166p-4F, -0x1.40e088p-6F, -0x1.934aeap-6F, 0x1.49499ap-8F}},
    {{{0x1.1d83ecp+0F, 0x1.ffd86ep-25F}, {-0x1.1ad8fep-3F, -0x1.ca3ec6p-29F}, {-0x1.6948b6p-2F, 0x1.8794a8p-28F}}, {0x1.4c6796p-4F, 0x1.95f90cp-4F, -0x1.d0686ep-6F, -0x1.675a96p-6F, 0x1.d6767cp-8F}},
    {{{0x1.1af54ep+0F, 0x1.196b04p-27F}, {-0x1.730704p-3F, -0x1.abe3dap-33F}, {-0x1.57665p-2F, 0x1.82abf6p-34F}}, {0x1.acf0bap-4F, 0x1.6cb16ap-4F, -0x1.265cdp-5F, -0x1.2d59bap-6F, 0x1.24ae4ap-7F}},
    {{{0x1.17bb2ap+0F, -0x1.5335f4p-26F}, {-0x1.c63116p-3F, -0x1.4f5712p-29F}, {-0x1.41400ap-2F, -0x1.53178ep-27F}}, {0x1.01021ep-3F, 0x1.3a9bb8p-4F, -0x1.58912ap-5F, -0x1.d0fbbcp-7F, 0x1.4e18bp-7F}},
    {{{0x1.13e08cp+0F, 0x1.e85a8ap-26F}, {-0x1.09ac3cp-2F, -0x1.b2b12ep-30F}, {-0x1.276ba6p-2F, 0x1.fcf5bp-29F}}, {0x1.24d6bcp-3F, 0x1.01ba56p-4F, -0x1.7d1fdcp-5F, -0x1.3900a2p-7F, 0x1.65b064p-7F}},
    {{{0x1.0f725ap+0F, -0x1.5df9f6p-26F}, {-0x1.2cd344p-2F, -0x1.4978a8p-27F}, {-0x1.0a9338p-2F, 0x1.bd2c02p-27F}}, {0x1.413fd6p-3F, 0x1.8889e2p-5F, -0x1.9311a4p-5F, -0x1.35752ap-8F, 0x1.6add78p-7F}},
    {{{0x1.0a7ef6p+0F, -0x1.f38916p-27F}, {-0x1.4c3884p-2F, -0x1.cbc5cap-27F}, {-0x1.d6dd16p-3F, 0x1.c3d3bp-29F}}, {0x1.55cfc8p-3F, 0x1.0915bp-5F, -0x1.9a2faep-5F, 0x1.de9146p-15F, 0x1.5e383ep-7F}},
    {{{0x1.0515ecp+0F, -0x1.b2caf2p-25F}, {-0x1.679e56p-2F, 0x1.d65e2ap-31F}, {-0x1.957878p-3F, -0x1.734ac8p-28F}}, {0x1.6262c6p-3F, 0x1.1354cp-6F, -0x1.92fd66p-5F, 0x1.2aa7ccp-8F, 0x1.416fe8p-7F}},
    {{{0x1.fe8f16p-1F, 0x1.4e4ebap-29F}, {-0x1.7edef6p-2F, 0x1.3b2e38p-29F}, {-0x1.5275c6p-3F, 0x1.f45268p-29F}}, {0x1.671c5p-3F, 0x1.d2c7dp-10F, -0x1.7ea6ecp-5F, 0x1.192014p-7F, 0x1.171cd2p-7F}},
    {{{0x1.f2491cp-1F, 0x1.aac4d6p-26F}, {-0x1.91ec1ep-2F, -0x1.51fe6ep-27F}, {-0x1.0f4542p-3F, 0x1.1fc656p-28F}}, {0x1.646158p-3F, -0x1.91349cp-7F, -0x1.5ee604p-5F, 0x1.880884p-7F, 0x1.c5074ep-8F}},
    {{{0x1.e57b74p-1F, 0x1.df04cap-27F}, {-0x1.a0cddap-2F, 0x1.532a68p-28F}, {-0x1.9a7d8ep-4F, 0x1.4fcb78p-31F}}, {0x1.5acfc2p-3F, -0x1.978426p-6F, -0x1.35e004p-5F, 0x1.de598ep-7F, 0x1.4e9e66p-8F}},
    {{{0x1.d84714p-1F, -0x1.654eb2p-26F}, {-0x1.aba0a8p-2F, -0x1.d015a8p-28F}, {-0x1.1b3026p-4F, 0x1.caef9ep-33F}}, {0x1.4b33a8p-3F, -0x1.25424cp-5F, -0x1.05ff86p-5F, 0x1.0d01a6p-6F, 0x1.a51eb6p-9F}},
    {{{0x1.cacbc2p-1F, -0x1.f8201p-27F}, {-0x1.b29324p-2F, 0x1.a9990cp-28F}, {-0x1.4574dap-5F, 0x1.3d7544p-31F}}, {0x1.367b5cp-3F, -0x1.6f0e96p-5F, -0x1.a399dcp-6F, 0x1.1d4b88p-6F, 0x1.606c5p-10F}},
    {{{0x1.bd2794p-1F, -0x1.693e0ap-26F}, {-0x1.b5e332p-2F, -0x1.9bc882p-27F}, {-0x1.96b59p-7F, -0x1.0f3f2ep-35F}}, {0x1.1daad2p-3F, -0x1.a83202p-5F, -0x1.37910ap-6F, 0x1.209438p-6F, -0x1.a452dcp-12F}},
    {{{0x1.af767ap-1F, 0x1.d04222p-27F}, {-0x1.b5db04p-2F, -0x1.44953cp-28F}, {0x1.992278p-7F, -0x1.765684p-32F}}, {0x1.01cf24p-3F, -0x1.d079f6p-5F, -0x1.99227ap-7F, 0x1.180b7p-6F, -0x1.fcf61cp-10F}},
    {{{0x1.a1d1fp-1F, 0x1.6574f4p-26F}, {-0x1.b2cde8p-2F, -0x1.8095bcp-28F}, {0x1.1c894cp-5F, 0x1.ef1da8p-30F}}, {0x1.c7e5eap-4F, -0x1.e86492p-5F, -0x1.9aedeep-8F, 0x1.056308p-6F, -0x1.a5bb2cp-9F}},
    {{{0x1.9450bcp-1F, -0x1.c273f6p-26F}, {-0x1.ad1534p-2F, 0x1.930efp-31F}, {0x1.bbf494p-5F, -0x1.e07e0ap-30F}}, {0x1.8a284cp-4F, -0x1.f10766p-5F, -0x1.2f7c36p-11F, 0x1.d54c82p-7F, -0x1.12b53cp-8F}},
    {{{0x1.8706c6p-1F, 0x1.5e03dap-30F}, {-0x1.a50d4ap-2F, 0x1.813786p-27F}, {0x1.22109ep-4F, 0x1.e3b682p-29F}}, {0x1.4c3692p-4F, -0x1.ebf106p-5F, 0x1.223fe6p-8F, 0x1.941f38p-7F, -0x1.3dd164p-8F}},
    {{{0x1.7a0518p-1F, -0x1.4aa6ccp-27F}, {-0x1.9b12ep-2F, 0x1.8d838cp-28F}, {0x1.5aa538p-4F, 0x1.fffc94p-29F}}, {0x1.0faa3cp-4F, -0x1.db07bcp-5F, 0x1.1b462ep-7F, 0x1.4bc156p-7F, -0x1.549cd4p-8F}},
    {{{0x1.6d59d8p-1F, -0x1.713a9ep-26F}, {-0x1.8f809ep-2F, -0x1.93b668p-28F}, {0x1.881c8p-4F, 0x1.c80052p-30F}}, {0x1.abb88ap-5F, -0x1.c067e4p-5F, 0x1.8999aep-7F, 0x1.007d1ap-7F, -0x1.58ab1ap-8F}},
    {{{0x1.611066p-1F, -0x1.b67474p-32F}, {-0x1.82ad18p-2F, -0x1.0b6ca2p-30F}, {0x1.ab151ap-4F, 0x1.e5ab2ap-30F}}, {0x1.3fc0dap-5F, -0x1.9e43d6p-5F, 0x1.dbc14ap-7F, 0x1.6c5444p-8F, -0x1.4c74b8p-8F}},
    {{{0x1.553186p-1F, 0x1.acc6dcp-28F}, {-0x1.74e92cp-2F, -0x1.6a8d1cp-27F}, {0x1.c45acap-4F, -0x1.f61a58p-29F}}, {0x1.ba112cp-6F, -0x1.76c73p-5F, 0x1.095c44p-6F, 0x1.c00deep-9F, -0x1.330c2p-8F}},
    {{{0x1.49c38ep-1F, 0x1.2de9dp-27F}, {-0x1.667ed6p-2F, 0x1.5a8f8ep-27F}, {0x1.d4d972p-4F, -0x1.c879a6p-29F}}, {0x1.0946e2p-6F, -0x1.4bfebp-5F, 0x1.1847c2p-6F, 0x1.847228p-10F, -0x1.0fd28p-8F}},
    {{{0x1.3ecaa4p-1F, -0x1.815ba4p-26F}, {-0x1.57b054p-2F, -0x1.a981d2p-28F}, {0x1.dd90d8p-4F, -0x1.35fea2p-33F}}, {0x1.b93e7cp-8F, -0x1.1fc544p-5F, 0x1.1c124p-6F, -0x1.9bf5dp-13F, -0x1.cc64eap-9F}},
    {{{0x1.3448f8p-1F, 0x1.c130d8p-27F}, {-0x1.48b7c4p-2F, -0x1.35496p-28F}, {0x1.df8988p-4F, -0x1.107dc2p-33F}}, {-0x1.685f0ep-10F, -0x1.e76d9ap-6F, 0x1.166e32p-6F, -0x1.9f603cp-10F, -0x1.72ca5ap-9F}},
    {{{0x1.2a3f12p-1F, -0x1.d4d012p-27F}, {-0x1.39c6f8p-2F, -0x1.1c9222p-27F}, {0x1.dbcb2ep-4F, -0x1.33fb0cp-29F}}, {-0x1.0b4f22p-7F, -0x1.92506cp-6F, 0x1.092fbcp-6F, -0x1.5e1928p-9F, -0x1.1889fap-9F}},
    {{{0x1.20ac04p-1F, 0x1.238c34p-27F}, {-0x1.2b07a6p-2F, -0x1.a4da9p-32F}, {0x1.d3549ap-4F, 0x1.f9086ap-31F}}, {-0x1.c0361ep-7F, -0x1.424948p-6F, 0x1.ec5d9p-7F, -0x1.c5c434p-9F, -0x1.84ba78p-10F}},
    {{{0x1.178db8p-1F, 0x1.5aa598p-31F}, {-0x1.1c9bc4p-2F, 0x1.1cd8e2p-29F}, {0x1.c71582p-4F, 0x1.603522p-29F}}, {-0x1.27598ap-6F, -0x1.f1bb54p-7F, 0x1.be5c9cp-7F, -0x1.04a76p-8F, -0x1.cf87e2p-11F}},
    {{{0x1.0ee122p-1F, -0x1.bd39aep-27F}, {-0x1.0e9e18p-2F, 0x1.4f66a4p-29F}, {0x1.b7e9eap-4F, 0x1.56d4e4p-31F}}, {-0x1.5d2c62p-6F, -0x1.6e17eap-7F, 0x1.8b92aep-7F, -0x1.1655dep-8F, -0x1.7ca20ap-12F}},
    {{{0x1.06a27ap-1F, 0x1.0b59aap-28F}, {-0x1.0122ep-2F, -0x1.b77204p-27F}, {0x1.a69724p-4F, 0x1.14d938p-29F}}, {-0x1.838d2p-6F, -0x1.f5687ap-8F, 0x1.56cbd6p-7F, -0x1.1a53c4p-8F, 0x1.2440c2p-14F}},
    {{{0x1.fd9ae2p-2F, -0x1.7b0d44p-27F}, {-0x1.e87128p-3F, 0x1.4cac78p-28F}, {0x1.93ca4p-4F, -0x1.2648e6p-30F}}, {-0x1.9c899cp-6F, -0x1.2f9e32p-8F, 0x1.225b2cp-7F, -0x1.133b3ap-8F, 0x1.ae4a1p-12F}},
    {{{0x1.eebaaap-2F, -0x1.1c994ep-29F}, {-0x1.cfd13ep-3F, -0x1.57ff4ep-28F}, {0x1.8017ap-4F, 0x1.27992ap-29F}}, {-0x1.aa2cb4p-6F, -0x1.1403eap-9F, 0x1.e02ba6p-8F, -0x1.03a9eep-8F, 0x1.5ac6aep-11F}},
    {{{0x1.e09a7ap-2F, -0x1.18247p-30F}, {-0x1.b87062p-3F, 0x1.372094p-28F}, {0x1.6bfb9ap-4F, -0x1.3b81f4p-29F}}, {-0x1.ae6bfep-6F, -0x1.632542p-15F, 0x1.82ac18p-8F, -0x1.dc34e4p-9F, 0x1.b30f24p-11F}},
    {{{0x1.d33048p-2F, -0x1.418c78p-28F}, {-0x1.a251dcp-3F, -0x1.692f42p-30F}, {0x1.57dbcp-4F, -0x1.97fb6cp-29F}}, {-0x1.ab1a34p-6F, 0x1.a25a86p-10F, 0x1.2e0952p-8F, -0x1.a99082p-9F, 0x1.e54224p-11F}},
    {{{0x1.c67206p-2F, 0x1.1cc9f8p-27F}, {-0x1.8d734cp-3F, -0x1.fef1dcp-31F}, {0x1.4408c8p-4F, -0x1.c5a4cep-29F}}, {-0x1.a1de1ap-6F, 0x1.761052p-9F, 0x1.c69ab2p-9F, -0x1.733ba4p-9F, 0x1.f792f8p-11F}},
    {{{0x1.ba55dp-2F, -0x1.733fe2p-28F}, {-0x1.79cddcp-3F, 0x1.f5d51p-29F}, {0x1.30c0bap-4F, -0x1.c0301cp-29F}}, {-0x1.942d3p-6F, 0x1.ef738ap-9F, 0x1.45b5f6p-9F, -0x1.3c57b6p-9F, 0x1.f08a6ep-11F}},
    {{{0x1.aed2p-2F, 0x1.9acf7ep-27F}, {-0x1.67575ap-3F, 0x1.b025a8p-30F}, {0x1.1e314ep-4F, -0x1.388b38p-31F}}, {-0x1.8349c4p-6F, 0x1.21e02p-8F, 0x1.b23f7p-10F, -0x1.07505p-9F, 0x1.d68adap-11F}},
    {{{0x1.a3dd54p-2F, -0x1.5a41f6p-28F}, {-0x1.56032ep-3F, 0x1.45e8aap-28F}, {0x1.0c7a54p-4F, -0x1.1dfaecp-30F}}, {-0x1.704382p-6F, 0x1.3c94b4p-8F, 0x1.ff2ed4p-11F, -0x1.abc976p-10F, 0x1.af746ep-11F}},
    {{{0x1.996eeep-2F, -0x1.bd7a6ap-28F}, {-0x1.45c32p-3F, 0x1.f7f9ecp-29F}, {0x1.f76p-5F, 0x1.f13d0ap-30F}}, {-0x1.5bfa14p-6F, 0x1.4abb8cp-8F, 0x1.c11cfcp-12F, -0x1.527378p-10F, 0x1.8068f2p-11F}},
    {{{0x1.8f7e6ap-2F, -0x1.a5ba6cp-29F}, {-0x1.368804p-3F, -0x1.6cfd9ap-29F}, {0x1.d7ba36p-5F, 0x1.165e5cp-31F}}, {-0x1.472104p-6F, 0x1.4ef1fap-8F, 0x1.e75eb8p-20F, -0x1.03e0ccp-10F, 0x1.4dab72p-11F}},
    {{{0x1.8603ep-2F, -0x1.eded9p-27F}, {-0x1.284242p-3F, 0x1.215164p-30F}, {0x1.ba09e2p-5F, 0x1.46b022p-30F}}, {-0x1.324482p-6F, 0x1.4b850ep-8F, -0x1.4fd3dcp-12F, -0x1.80fca6p-11F, 0x1.1a9752p-11F}},
    {{{0x1.7cf7e2p-2F, -0x1.cbcc66p-27F}, {-0x1.1ae23ap-3F, 0x1.845c36p-28F}, {0x1.9e4a22p-5F, -0x1.118658p-32F}}, {-0x1.1dce88p-6F, 0x1.426e4cp-8F, -0x1.2263bp-11F, -0x1.102b1p-11F, 0x1.d3529ep-12F}},
    {{{0x1.74538p-2F, -0x1.cfe182p-29F}, {-0x1.0e5896p-3F, -0x1.a2555ep-28F}, {0x1.846d86p-5F, 0x1.6e44aap-30F}}, {-0x1.0a0c0ep-6F, 0x1.355524p-8F, -0x1.767b32p-11F, -0x1.67ec76p-12F, 0x1.7929f8p-12F}},
    {{{0x1.6c1044p-2F, -0x1.04ded4p-27F}, {-0x1.02968cp-3F, -0x1.3fee64p-33F}, {0x1.6c6096p-5F, 0x1.671248p-30F}}, {-0x1.ee6404p-7F, 0x1.2593eap-8F, -0x1.ab9282p-11F, -0x1.a9bedap-13F, 0x1.28c392p-12F}},
    {{{0x1.642828p-2F, 0x1.0dfdeep-27F}, {-0x1.ef1beep-4F, -0x1.9937ecp-29F}, {0x1.560bd2p-5F, 0x1.e7febep-31F}}, {-0x1.cac3dcp-7F, 0x1.143ef8p-8F, -0x1.c8408p-11F, -0x1.8aac9cp-14F, 0x1.c62da6p-13F}},
    {{{0x1.5c959ap-2F, -0x1.b25bc4p-27F}, {-0x1.da62fcp-4F, -0x1.aa91f2p-33F}, {0x1.415556p-5F, -0x1.2b4abep-30F}}, {-0x1.a95c14p-7F, 0x1.022d1ap-8F, -0x1.d23c2ap-11F, -0x1.9216fap-17F, 0x1.50890cp-13F}},
    {{{0x1.555368p-2F, -0x1.a53b8p-27F}, {-0x1.c6e932p-4F, -0x1.807298p-29F}, {0x1.2e2218p-5F, 0x1.d7814ep-30F}}, {-0x1.8a39a4p-7F, 0x1.e000cep-9F, -0x1.ce5984p-11F, 0x1.90caccp-15F, 0x1.df4c4ap-14F}},
    {{{0x1.4e5cc6p-2F, -0x1.8b6d08p-27F}, {-0x1.b49738p-4F, -0x1.8e9922p-29F}, {0x1.1c56e8p-5F, 0x1.519d9ap-30F}}, {-0x1.6d582p-7F, 0x1.bc5df6p-9F, -0x1.c0934ap-11F, 0x1.76bd64p-14F, 0x1.438c76p-14F}},
    {{{0x1.47ad4p-2F, -0x1.9fcebep-31F}, {-0x1.a35764p-4F, 0x1.2d10e4p-32F}, {0x1.0bd914p-5F, 0x1.7aaffcp-30F}}, {-0x1.52a6ap-7F, 0x1.9a1638p-9F, -0x1.ac1cfp-11F, 0x1.e876f6p-14F, 0x1.92d87ap-15F}},
    {{{0x1.4140b8p-2F, -0x1.4d025ep-27F}, {-0x1.9315aep-4F, 0x1.096992p-29F}, {0x1.f91ddcp-6F, 0x1.3f7364p-34F}}, {-0x1.3a0bd8p-7F, 0x1.799526p-9F, -0x1.93798cp-11F, 0x1.159ee4p-13F, 0x1.b091dep-16F}},
    {{{0x1.3b1358p-2F, 0x1.886234p-28F}, {-0x1.83bfap-4F, 0x1.21556ap-29F}, {0x1.dcc03p-6F, -0x1.44d212p-31F}}, {-0x1.23692cp-7F, 0x1.5b1a28p-9F, -0x1.7894c4p-11F, 0x1.25522p-13F, 0x1.378c4p-17F}},
    {{{0x1.352196p-2F, 0x1.ba9fdp-27F}, {-0x1.75443ep-4F, 0x1.446692p-30F}, {0x1.c26b6ep-6F, 0x1.1e7ffp-31F}}, {-0x1.0e9d22p-7F, 0x1.3ec358p-9F, -0x1.5cdbacp-11F, 0x1.281a7ep-13F, -0x1.55006p-19F}},
    {{{0x1.2f6828p-2F, -0x1.f27b9cp-29F}, {-0x1.6793eep-4F, 0x1.ebf7e8p-29F}, {0x1.a9f518p-6F, 0x1.df9888p-34F}}, {-0x1.f70a66p-8F, 0x1.249678p-9F, -0x1.41544cp-11F, 0x1.21ce46p-13F, -0x1.658a56p-17F}},
    {{{0x1.29e3fcp-2F, -0x1.224612p-29F}, {-0x1.5aa05ap-4F, 0x1.32f6eep-29F}, {0x1.9335e8p-6F, -0x1.797236p-31F}}, {-0x1.d3fe08p-8F, 0x1.0c8822p-9F, -0x1.26b2bcp-11F, 0x1.157058p-13F, -0x1.0aaf5cp-16F}},
    {{{0x1.24923ap-2F, 0x1.ca1874p-27F}, {-0x1.4e5c5cp-4F, -0x1.a84dccp-33F}, {0x1.7e09c4p-6F, -0x1.8da028p-32F}}, {-0x1.b3d2b4p-8F, 0x1.ed02f4p-10F, -0x1.0d6b8ep-11F, 0x1.054ebcp-13F, -0x1.3e2f3ap-16F}},
    {{{0x1.1f704p-2F, -0x1.fdc7f6p-27F}, {-0x1.42bbe2p-4F, -0x1.89af4cp-29F}, {0x1.6a4fap-6F, -0x1.2e9ef6p-31F}}, {-0x1.964942p-8F, 0x1.c4c8fcp-10F, -0x1.eb86a8p-12F, 0x1.e6423ep-14F, -0x1.56f3bep-16F}},
    {{{0x1.1a7b9p-2F, 0x1.35cf4ap-27F}, {-0x1.37b3d8p-4F, -0x1.4ca932p-31F}, {0x1.57e94ap-6F, 0x1.d804f2p-31F}}, {-0x1.7b2696p-8F, 0x1.a01e86p-10F, -0x1.bfb6a8p-12F, 0x1.c04b0ap-14F, -0x1.5cb94ap-16F}},
    {{{0x1.15b1e2p-2F, 0x1.3d0bb8p-27F}, {-0x1.2d3a0ep-4F, 0x1.ec10fcp-30F}, {0x1.46bb42p-6F, -0x1.1566d2p-33F}}, {-0x1.6233eep-8F, 0x1.7ebca4p-10F, -0x1.977778p-12F, 0x1.9a73bep-14F, -0x1.558744p-16F}},
    {{{0x1.11111p-2F, -0x1.efe758p-27F}, {-0x1.234526p-4F, -0x1.16026p-30F}, {0x1.36ac76p-6F, 0x1.91bbd8p-32F}}, {-0x1.4b3ef8p-8F, 0x1.605c8ap-10F, -0x1.72b72p-12F, 0x1.75e444p-14F, -0x1.45f32cp-16F}},
    {{{0x1.0c9714p-2F, -0x1.f5c6a6p-29F}, {-0x1.19cc86p-4F, 0x1.c0f506p-29F}, {0x1.27a61cp-6F, 0x1.277508p-33F}}, {-0x1.3619c2p-8F, 0x1.44b9c2p-10F, -0x1.514d6ap-12F, 0x1.53555ap-14F, -0x1.31628ep-16F}},
    {{{0x1.08421p-2F, -0x1.c2db78p-29F}, {-0x1.10c83ap-4F, -0x1.a0147ep-29F}, {0x1.199374p-6F, 0x1.fab03cp-31F}}, {-0x1.229a7ep-8F, 0x1.2b9392p-10F, -0x1.3304d6p-12F, 0x1.332e76p-14F, -0x1.1a47e6p-16F}},
    {{{0x1.04104p-2F, 0x1.27de5cp-27F}, {-0x1.0830f6p-4F, -0x1.bbc11p-30F}, {0x1.0c61ap-6F, 0x1.0a10dep-31F}}, {-0x1.109b4ep-8F, 0x1.14adb6p-10F, -0x1.17a116p-12F, 0x1.159d52p-14F, -0x1.025832p-16F}},
};

inline constexpr float kPairsSixtyFourOverPi = 0x1.45f306p+4F;
inline constexpr float kPairsPiOver64First = 0x1.921fb6p-5F;
inline constexpr float kPairsPiOver64Second = -0x1.777a5cp-30F;
inline constexpr float kPairsPiOver64Third = -0x1.ee59dap-55F;

// sin(i pi/64).
alignas(128) DGX_TABLE FloatPair kPairsSineTable[128] = {
    {0x0p+0F, 0x0p+0F},
    {0x1.91f66p-5F, -0x1.de44fep-30F},
    {0x1.917a6cp-4F, -0x1.eb25eap-31F},
    {0x1.2c8106p-3F, 0x1.d1cc28p-28F},
    {0x1.8f8b84p-3F, -0x1.cb2cfap-30F},
    {0x1.f19f98p-3F, -0x1.37a83ap-29F},
    {0x1.294062p-2F, 0x1.dab3ep-27F},
    {0x1.58f9a8p-2F, -0x1.4a9c04p-27F},
    {0x1.87de2ap-2F, 0x1.abaa58p-28F},
    {0x1.b5d1p-2F, 0x1.3c2b98p-27F},
    {0x1.e2b5d4p-2F, -0x1.fe4272p-28F},
    {0x1.07387ap-1F, -0x1.b74004p-27F},
    {0x1.1c73b4p-1F, -0x1.9465cep-27F},
    {0x1.30ff8p-1F, -0x1.8f47e6p-28F},
    {0x1.44cf32p-1F, 0x1.424776p-27F},
    {0x1.57d694p-1F, -0x1.6e626cp-26F},
    {0x1.6a09e6p-1F, 0x1.9fcef4p-27F},
    {0x1.7b5df2p-1F, 0x1.3557d8p-28F},
    {0x1.8bc806p-1F, 0x1.62a2e8p-26F},
    {0x1.9b3e04p-1F, 0x1.fce1dp-27F},
    {0x1.a9b662p-1F, 0x1.21d434p-26F},
    {0x1.b72834p-1F, 0x1.465b9p-27F},
    {0x1.c38b3p-1F, -0x1.cfe84ap-26F},
    {0x1.ced7bp-1F, -0x1.786712p-26F},
    {0x1.d906bcp-1F, 0x1.e651a8p-26F},
    {0x1.e2121p-1F, 0x1.3da1bap-27F},
    {0x1.e9f416p-1F, -0x1.273a44p-26F},
    {0x1.f0a7fp-1F, -0x1.1b73cap-27F},
    {0x1.f6297cp-1F, 0x1.feeb96p-26F},
    {0x1.fa7558p-1F, -0x1.eeb5d2p-30F},
    {0x1.fd88dap-1F, 0x1.e89292p-28F},
    {0x1.ff621ep-1F, 0x1.bcb6bep-28F},
    {0x1p+0F, 0x0p+0F},
    {0x1.ff621ep-1F, 0x1.bcb6bep-28F},
    {0x1.fd88dap-1F, 0x1.e89292p-28F},
    {0x1.fa7558p-1F, -0x1.eeb5d2p-30F},
    {0x1.f6297cp-1F, 0x1.feeb96p-26F},
    {0x1.f0a7fp-1F, -0x1.1b73cap-27F},
    {0x1.e9f416p-1F, -0x1.273a44p-26F},
    {0x1.e2121p-1F, 0x1.3da1bap-27F},
    {0x1.d906bcp-1F, 0x1.e651a8p-26F},
    {0x1.ced7bp-1F, -0x1.786712p-26F},
    {0x1.c38b3p-1F, -0x1.cfe84ap-26F},
    {0x1.b72834p-1F, 0x1.465b9p-27F},
    {0x1.a9b662p-1F, 0x1.21d434p-26F},
    {0x1.9b3e04p-1F, 0x1.fce1dp-27F},
    {0x1.8bc806p-1F, 0x1.62a2e8p-26F},
    {0x1.7b5df2p-1F, 0x1.3557d8p-28F},
    {0x1.6a09e6p-1F, 0x1.9fcef4p-27F},
    {0x1.57d694p-1F, -0x1.6e626cp-26F},
    {0x1.44cf32p-1F, 0x1.424776p-27F},
    {0x1.30ff8p-1F, -0x1.8f47e6p-28F},
    {0x1.1c73b4p-1F, -0x1.9465cep-27F},
    {0x1.07387ap-1F, -0x1.b74004p-27F},
    {0x1.e2b5d4p-2F, -0x1.fe4272p-28F},
    {0x1.b5d1p-2F, 0x1.3c2b98p-27F},
    {0x1.87de2ap-2F, 0x1.abaa58p-28F},
    {0x1.58f9a8p-2F, -0x1.4a9c04p-27F},
    {0x1.294062p-2F, 0x1.dab3ep-27F},
    {0x1.f19f98p-3F, -0x1.37a83ap-29F},
    {0x1.8f8b84p-3F, -0x1.cb2cfap-30F},
    {0x1.2c8106p-3F, 0x1.d1cc28p-28F},
    {0x1.917a6cp-4F, -0x1.eb25eap-31F},
    {0x1.91f66p-5F, -0x1.de44fep-30F},
    {0x0p+0F, 0x0p+0F},
    {-0x1.91f66p-5F, 0x1.de44fep-30F},
    {-0x1.917a6cp-4F, 0x1.eb25eap-31F},
    {-0x1.2c8106p-3F, -0x1.d1cc28p-28F},
    {-0x1.8f8b84p-3F, 0x1.cb2cfap-30F},
    {-0x1.f19f98p-3F, 0x1.37a83ap-29F},
    {-0x1.294062p-2F, -0x1.dab3ep-27F},
    {-0x1.58f9a8p-2F, 0x1.4a9c04p-27F},
    {-0x1.87de2ap-2F, -0x1.abaa58p-28F},
    {-0x1.b5d1p-2F, -0x1.3c2b98p-27F},
    {-0x1.e2b5d4p-2F, 0x1.fe4272p-28F},
    {-0x1.07387ap-1F, 0x1.b74004p-27F},
    {-0x1.1c73b4p-1F, 0x1.9465cep-27F},
    {-0x1.30ff8p-1F, 0x1.8f47e6p-28F},
    {-0x1.44cf32p-1F, -0x1.424776p-27F},
    {-0x1.57d694p-1F, 0x1.6e626cp-26F},
    {-0x1.6a09e6p-1F, -0x1.9fcef4p-27F},
    {-0x1.7b5df2p-1F, -0x1.3557d8p-28F},
    {-0x1.8bc806p-1F, -0x1.62a2e8p-26F},
    {-0x1.9b3e04p-1F, -0x1.fce1dp-27F},
    {-0x1.a9b662p-1F, -0x1.21d434p-26F},
    {-0x1.b72834p-1F, -0x1.465b9p-27F},
    {-0x1.c38b3p-1F, 0x1.cfe84ap-26F},
    {-0x1.ced7bp-1F, 0x1.786712p-26F},
    {-0x1.d906bcp-1F, -0x1.e651a8p-26F},
    {-0x1.e2121p-1F, -0x1.3da1bap-27F},
    {-0x1.e9f416p-1F, 0x1.273a44p-26F},
    {-0x1.f0a7fp-1F, 0x1.1b73cap-27F},
    {-0x1.f6297cp-1F, -0x1.feeb96p-26F},
    {-0x1.fa7558p-1F, 0x1.eeb5d2p-30F},
    {-0x1.fd88dap-1F, -0x1.e89292p-28F},
    {-0x1.ff621ep-1F, -0x1.bcb6bep-28F},
    {-0x1p+0F, 0x0p+0F},
    {-0x1.ff621ep-1F, -0x1.bcb6bep-28F},
    {-0x1.fd88dap-1F, -0x1.e89292p-28F},
    {-0x1.fa7558p-1F, 0x1.eeb5d2p-30F},
    {-0x1.f6297cp-1F, -0x1.feeb96p-26F},
    {-0x1.f0a7fp-1F, 0x1.1b73cap-27F},
    {-0x1.e9f416p-1F, 0x1.273a44p-26F},
    {-0x1.e2121p-1F, -0x1.3da1bap-27F},
    {-0x1.d906bcp-1F, -0x1.e651a8p-26F},
    {-0x1.ced7bp-1F, 0x1.786712p-26F},
    {-0x1.c38b3p-1F, 0x1.cfe84ap-26F},
    {-0x1.b72834p-1F, -0x1.465b9p-27F},
    {-0x1.a9b662p-1F, -0x1.21d434p-26F},
    {-0x1.9b3e04p-1F, -0x1.fce1dp-27F},
    {-0x1.8bc806p-1F, -0x1.62a2e8p-26F},
    {-0x1.7b5df2p-1F, -0x1.3557d8p-28F},
    {-0x1.6a09e6p-1F, -0x1.9fcef4p-27F},
    {-0x1.57d694p-1F, 0x1.6e626cp-26F},
    {-0x1.44cf32p-1F, -0x1.424776p-27F},
    {-0x1.30ff8p-1F, 0x1.8f47e6p-28F},
    {-0x1.1c73b4p-1F, 0x1.9465cep-27F},
    {-0x1.07387ap-1F, 0x1.b74004p-27F},
    {-0x1.e2b5d4p-2F, 0x1.fe4272p-28F},
    {-0x1.b5d1p-2F, -0x1.3c2b98p-27F},
    {-0x1.87de2ap-2F, -0x1.abaa58p-28F},
    {-0x1.58f9a8p-2F, 0x1.4a9c04p-27F},
    {-0x1.294062p-2F, -0x1.dab3ep-27F},
    {-0x1.f19f98p-3F, 0x1.37a83ap-29F},
    {-0x1.8f8b84p-3F, 0x1.cb2cfap-30F},
    {-0x1.2c8106p-3F, -0x1.d1cc28p-28F},
    {-0x1.917a6cp-4F, 0x1.eb25eap-31F},
    {-0x1.91f66p-5F, 0x1.de44fep-30F},
};

// (sin(r) - r) / r^3 in r^2, |r| <= 1.03 pi/128.
DGX_TABLE float kPairsSinPolynomial[2] = {-0x1.555556p-3F, 0x1.111p-7F};

// (cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= 1.03 pi/128.
DGX_TABLE float kPairsCosPolynomial[2] = {0x1.555556p-5F, -0x1.6c15b2p-10F};

}  // namespace dgx::kernels
