#pragma once

#include <cstdint>

#include "dgx/core/host_device.h"

// Written by make_function_tables.py. Constants of the elementary functions;
// function_formulas.h says what they are for.
// clang-format off

namespace dgx::kernels {

inline constexpr double kSixteenOverLn2 = 0x1.71547652b82fep+4;
inline constexpr double kLn2Over16High = 0x1.62e42fefa0000p-5;
inline constexpr double kLn2Over16Low = 0x1.cf79abc9e3b3ap-44;

// 2^(i/16).
alignas(64) DGX_TABLE double kExpTable[16] = {
    0x1.0000000000000p+0,
    0x1.0b5586cf9890fp+0,
    0x1.172b83c7d517bp+0,
    0x1.2387a6e756238p+0,
    0x1.306fe0a31b715p+0,
    0x1.3dea64c123422p+0,
    0x1.4bfdad5362a27p+0,
    0x1.5ab07dd485429p+0,
    0x1.6a09e667f3bcdp+0,
    0x1.7a11473eb0187p+0,
    0x1.8ace5422aa0dbp+0,
    0x1.9c49182a3f090p+0,
    0x1.ae89f995ad3adp+0,
    0x1.c199bdd85529cp+0,
    0x1.d5818dcfba487p+0,
    0x1.ea4afa2a490dap+0,
};

// Relative error of kExpTable[i]: 2^(i/16) = kExpTable[i] (1 + this).
alignas(64) DGX_TABLE double kExpTableError[16] = {
    0x0.0p+0,
    0x1.79aa65d837b6dp-54,
    -0x1.01b15eaa59348p-55,
    0x1.68efde3a8a894p-54,
    0x1.34d754db0abb6p-55,
    0x1.59f48a72a4c6dp-55,
    0x1.690cebb7aafb0p-56,
    0x1.063e1e21c5409p-54,
    -0x1.3b3efbf5e2228p-54,
    -0x1.b32dcb94da51dp-56,
    0x1.db72fc1f0eab4p-55,
    0x1.1affc2b91ce27p-56,
    0x1.c1a7792cb3387p-55,
    0x1.36eae30af0cb3p-56,
    0x1.4a385a63d07a7p-56,
    -0x1.ff7128fd391f0p-55,
};

// (e^r - 1 - r) / r^2 for |r| <= ln(2)/32.
alignas(64) DGX_TABLE double kExpPolynomial[6] = {
    0x1.0000000000001p-1,
    0x1.5555555555556p-3,
    0x1.55555554e93b7p-5,
    0x1.11111110e1059p-7,
    0x1.6c17ed5c1f49ep-10,
    0x1.a01b0c3c80bbcp-13,
};

inline constexpr double kLn2High = 0x1.62e42fefa3800p-1;
inline constexpr double kLn2Low = 0x1.ef35793c76730p-45;
inline constexpr std::uint64_t kLogLowBits = 0x3fe7800000000000;  // of 0.734375

// c near 1/m in the interval, a multiple of 2^-24, -log(c) near to a double.
alignas(64) DGX_TABLE double kLogReciprocal[16] = {
    0x1.5550f10000000p+0,
    0x1.47af120000000p+0,
    0x1.3b121e0000000p+0,
    0x1.2f711a0000000p+0,
    0x1.2493fb0000000p+0,
    0x1.1a7bc70000000p+0,
    0x1.1110fd0000000p+0,
    0x1.0843a60000000p+0,
    0x1.0000000000000p+0,
    0x1.e1e5c20000000p-1,
    0x1.c71bc00000000p-1,
    0x1.af2d900000000p-1,
    0x1.999b260000000p-1,
    0x1.861c6e0000000p-1,
    0x1.745cac0000000p-1,
    0x1.642ab20000000p-1,
};

// -log(c).
alignas(64) DGX_TABLE double kLogTable[16] = {
    -0x1.2688f3fd9a4c6p-2,
    -0x1.f997f748d645dp-3,
    -0x1.a93496c220701p-3,
    -0x1.5c2f75587ec79p-3,
    -0x1.1184c519b283ep-3,
    -0x1.9338ab555725ap-4,
    -0x1.08585e59d8912p-4,
    -0x1.0446f278c8904p-5,
    0x0.0p+0,
    0x1.f0612a44e7fb6p-5,
    0x1.e276b6e3e7aebp-4,
    0x1.5fda9b2fbfca6p-3,
    0x1.c8f7be7d68affp-3,
    0x1.166b2a08d8c5fp-2,
    0x1.4619e321f06a5p-2,
    0x1.73a2bfaf2f577p-2,
};

// (log(1 + r) - r) / r^2 for -0.02938 <= r <= 0.03125.
alignas(64) DGX_TABLE double kLogPolynomial[10] = {
    -0x1.0000000000000p-1,
    0x1.5555555555555p-2,
    -0x1.fffffffffff39p-3,
    0x1.999999999b2f1p-3,
    -0x1.55555556fed87p-3,
    0x1.24924908f11d4p-3,
    -0x1.ffffd7fd19768p-4,
    0x1.c71dc84dc0e0dp-4,
    -0x1.9a5edc010c928p-4,
    0x1.71e8221da6461p-4,
};

// erf(a)/a on [i/4, i/4 + 1/4), in d = a - i/4 - 1/8: row k holds the coefficients of d^k of all intervals.
alignas(64) DGX_TABLE double kErfPolynomial[12][16] = {
    {0x1.1f5e1a35c3b8ap+0, 0x1.13e08c7a16a26p+0, 0x1.fe8f1614e4ebbp-1, 0x1.cacbc181f7fbdp-1, 0x1.9450bb1ec6057p-1, 0x1.611065fc93172p-1, 0x1.3448f8704c35dp-1, 0x1.0ee12190b194ap-1, 0x1.e09a79ee7db91p-2, 0x1.aed200cd67bebp-2, 0x1.8603df090937fp-2, 0x1.64282886fef72p-2, 0x1.47ad3ff3018a1p-2, 0x1.2f6827c1b08c7p-2, 0x1.1a7b909ae7a4ap-2, 0x1.08420fc7a4912p-2},
    {-0x1.7d900b9e8e99dp-4, -0x1.09ac3c1b2b12ep-2, -0x1.7edef5d89a390p-2, -0x1.b293239599bcep-2, -0x1.ad1533f367888p-2, -0x1.82ad1810b6ca1p-2, -0x1.48b7c44d5257ep-2, -0x1.0e9e17d6132b9p-2, -0x1.b87061646fb5ep-3, -0x1.675759c9fb4b1p-3, -0x1.284241dbd5d39p-3, -0x1.ef1beecc9bf68p-4, -0x1.a35763ed2ef1bp-4, -0x1.6793ed0a040bcp-4, -0x1.37b3d82995263p-4, -0x1.10c83ad00a3f2p-4},
    {-0x1.766bd13cfd364p-2, -0x1.276ba5c06230cp-2, -0x1.5275c582e56b4p-3, -0x1.4574d9b084e36p-5, 0x1.bbf4930fce64dp-5, 0x1.ab151a7968662p-4, 0x1.df8987f776673p-4, 0x1.b7e9ea2ad6b03p-4, 0x1.6bfb99623df33p-4, 0x1.1e314dd8ef1e7p-4, 0x1.ba09e2a359a4bp-5, 0x1.560bd27a00b13p-5, 0x1.0bd914bd58699p-5, 0x1.a9f5181df9bf6p-6, 0x1.57e94aec0277cp-6, 0x1.199374fd5811cp-6},
    {0x1.c5a8e00e819adp-5, 0x1.24d6bbb463b89p-3, 0x1.671c4f2a788d7p-3, 0x1.367b5cb82fe0ap-3, 0x1.8a284b2850403p-4, 0x1.3fc0da03d329fp-5, -0x1.685f0e5ab0e92p-10, -0x1.5d2c61901059ap-6, -0x1.ae6bfd18b4b59p-6, -0x1.8349c312caa89p-6, -0x1.3244824951e73p-6, -0x1.cac3dca96ce88p-7, -0x1.52a6a0f70f6abp-7, -0x1.f70a65d7c895bp-8, -0x1.7b2696397c885p-8, -0x1.229a7defb8fffp-8},
    {0x1.b4c1668ccda53p-4, 0x1.01ba55d8a0fc4p-4, 0x1.d2c79427d821ap-10, -0x1.6f0e9906759e8p-5, -0x1.f10767cbff7b8p-5, -0x1.9e43d4cd90e39p-5, -0x1.e76d9755b9d9ap-6, -0x1.6e17e7236d9f7p-7, -0x1.632497dfac29ap-15, 0x1.21e01ef7b353ap-8, 0x1.4b850d127b51dp-8, 0x1.143ef76de47a2p-8, 0x1.9a16385aaf71fp-9, 0x1.2496775d6431fp-9, 0x1.a01e86c678b9fp-10, 0x1.2b939293510bfp-10},
    {-0x1.40e089dc9c8cfp-6, -0x1.7d1fdd6ddee04p-5, -0x1.7ea6ec34a608dp-5, -0x1.a399dc43eae43p-6, -0x1.2f7c0870834e4p-11, 0x1.dbc14cd477fbdp-7, 0x1.166e31fed2750p-6, 0x1.8b92ad96c91a4p-7, 0x1.82ac17a77f0ffp-8, 0x1.b23f6f0b8889bp-10, -0x1.4fd3da642b1a7p-12, -0x1.c8407f1730c81p-11, -0x1.ac1cef18c8e9bp-11, -0x1.41544bb9e36d8p-11, -0x1.bfb6a751ccc44p-12, -0x1.3304d662327f0p-12},
    {-0x1.9370e545ea0a9p-6, -0x1.390f043fd811cp-7, 0x1.195022c59b3edp-7, 0x1.1d696327f4b1ep-6, 0x1.d56744803fe67p-7, 0x1.6c40e68189126p-8, -0x1.a015dce0b7eefp-10, -0x1.167532decdaa6p-8, -0x1.dc45f4b92c2e0p-9, -0x1.0747f23dc78e1p-9, -0x1.80ca495a56398p-11, -0x1.89abc07a043f7p-14, 0x1.e8e1d8705a8d4p-14, 0x1.21dc0102b4715p-13, 0x1.c04aa23624076p-14, 0x1.332885db60d71p-14},
    {0x1.496aefcd9eb9cp-8, 0x1.65d15009ef6e5p-7, 0x1.172f2645e5001p-7, 0x1.60322872f6eb1p-10, -0x1.12da4d66f42d5p-8, -0x1.4c8c39fe9b5bdp-8, -0x1.72cb5ae714223p-9, -0x1.7bfc034021a0dp-12, 0x1.b352fd7cd3d4bp-11, 0x1.d6a200c82580bp-11, 0x1.1a935fff70062p-11, 0x1.c606df884d6a9p-13, 0x1.9271ebc2a2076p-15, -0x1.6635238f94cdfp-17, -0x1.5cd01d8325ee5p-16, -0x1.1a49496f82535p-16},
    {0x1.2fe7fbf38b4afp-8, 0x1.cc3da8dd02d1cp-11, -0x1.8093c2fdeae3fp-9, -0x1.ddcbb0144a15ap-9, -0x1.ac233f0ee103ap-10, 0x1.361199d92df51p-11, 0x1.6b5aafca2284fp-10, 0x1.f554fa8cfdc9bp-11, 0x1.10e750662bcd9p-12, -0x1.0c0802e8f0739p-13, -0x1.92eac802a8561p-13, -0x1.00d84c0b10790p-13, -0x1.ab759924749a9p-15, -0x1.b7261676ac153p-17, 0x1.a004437ef8014p-23, 0x1.7c3467b3e4eeap-19},
    {-0x1.0ac390b349d6dp-10, -0x1.077631f14e4b2p-9, -0x1.25427c53aca9dp-10, 0x1.d182d61438f5fp-12, 0x1.28a0670e916fbp-10, 0x1.7823f78ff73abp-11, 0x1.fc01101144b1cp-17, -0x1.4c27f2a0e414bp-12, -0x1.0f69b49aa4c6ep-12, -0x1.7260346a9eec1p-14, 0x1.f93211d20ed6ap-17, 0x1.3641a4342a47ap-15, 0x1.9a3685d7bdc65p-16, 0x1.558a95eae298ep-17, 0x1.6d218472b72f5p-19, 0x1.63bde3b1744f3p-23},
    {-0x1.7e6f48e68bc35p-11, 0x1.cd5fdeee9277bp-20, 0x1.3feed3e16a6d4p-11, 0x1.0edde0f66ed29p-11, 0x1.5aa2ff4b6afddp-16, -0x1.29f3a37e9f6dap-12, -0x1.dd6faaa502da5p-13, -0x1.4d593dfda39d3p-15, 0x1.09d7772636f0fp-14, 0x1.f7a7c789e38adp-15, 0x1.7a2b5433e40f5p-16, -0x1.32555ef2a7148p-20, -0x1.b732f2412f239p-18, -0x1.25f597f9f955bp-18, -0x1.df0480dcf6dc4p-20, -0x1.fd466ceaacf24p-22},
    {0x1.630b28fe2bc0dp-13, 0x1.3d17fd4516697p-12, 0x1.a7bb6a902a86ap-14, -0x1.32a6bca915da5p-13, -0x1.6c14e4c59e8a0p-13, -0x1.4356e21a10a45p-15, 0x1.06c156b86e687p-14, 0x1.f74cbcd60560bp-15, 0x1.eaaa6ba481ef2p-17, -0x1.8f9f90c5e8353p-17, -0x1.a1a3df410c8b2p-17, -0x1.3dcd2cebe81c6p-18, 0x1.b74641d594e03p-25, 0x1.269836bee8690p-20, 0x1.7e7e5b08b8b1bp-21, 0x1.28892809a6f52p-22},
};

inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kHalfPiFirst = 0x1.921fb54400000p+0;
inline constexpr double kHalfPiSecond = 0x1.0b4611a600000p-34;
inline constexpr double kHalfPiThird = 0x1.3198a2e037073p-69;
inline constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
inline constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;

// (sin(r) - r) / r^3 in r^2, |r| <= pi/4.
alignas(64) DGX_TABLE double kSinPolynomial[7] = {
    -0x1.5555555555555p-3,
    0x1.1111111111110p-7,
    -0x1.a01a01a019926p-13,
    0x1.71de3a545e700p-19,
    -0x1.ae64540f0ba18p-26,
    0x1.61217c1864fa0p-33,
    -0x1.ab161757f0c0bp-41,
};

// (cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4.
alignas(64) DGX_TABLE double kCosPolynomial[7] = {
    0x1.5555555555555p-5,
    -0x1.6c16c16c16c16p-10,
    0x1.a01a01a019d02p-16,
    -0x1.27e4fb7711e1dp-22,
    0x1.1eed8de9ef73ep-29,
    -0x1.9394b76d1f264p-37,
    0x1.ab76cf6e9b317p-45,
};

// 32 zero bits, then the bits of 2/pi after the binary point.
DGX_TABLE std::uint64_t kTwoOverPiBits[5] = {
    0x00000000a2f9836e, 0x4e441529fc2757d1, 0xf534ddc0db629599, 0x3c439041fe5163ab, 0xdebbc561b7246e3a};

}  // namespace dgx::kernels
