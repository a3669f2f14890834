// Coefficients of e^r and of the normal distribution's tail, for the kernels of every device.
#pragma once

namespace dxdw {

// e^r = 1 + r + r^2 c(r) for |r| <= ln 2 / 2, relative error 3.1e-9: c in rising powers of r. The upper part of ln 2
// has 10 bits, so its products with small whole numbers are exact.
constexpr float kPerLn2 = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
constexpr float kExp0 = 0x1.fffffcp-2f, kExp1 = 0x1.555492p-3f, kExp2 = 0x1.5558f2p-5f, kExp3 = 0x1.123a20p-7f,
                kExp4 = 0x1.6a23ccp-10f;

// Phi(-t) = e^(-t^2 / 2) . s . P(u) with s = 1 / (1 + kTailScale t) and u = 2 s - 1 for 0 <= t <= kTailEnd, relative
// error 3.5e-9: P in rising powers of u. Beyond kTailEnd, Phi(-t) is below all floats.
constexpr float kTailScale = 0.3f, kTailEnd = 15.0f;
constexpr float kTail0 = 0.221970618f, kTail1 = 0.164579481f, kTail2 = 0.0865497068f, kTail3 = 0.0277603362f,
                kTail4 = 0.0018160328f, kTail5 = -0.00242348691f, kTail6 = -0.00056970102f, kTail7 = 0.00028059716f,
                kTail8 = 7.67025922e-05f, kTail9 = -4.02904589e-05f;
constexpr float kPerRoot2Pi = 0.398942280f;

}  // namespace dxdw
