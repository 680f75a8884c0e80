// The draws in a second language: prints the checksum of z and eps for each "seed units rank fan_in".
import { createHash } from "node:crypto";
const C = [[2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080], [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1]];
const M = [[7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734], [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1]];
const T = [[2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720], [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1]];
const poly = (c, x) => c.reduce((total, a) => total * x + a), ratio = (c, x) => poly(c[0], x) / poly(c[1], x);
const ODD = Array.from({ length: 11 }, (_, i) => 1 / (21 - 2 * i));
function log(x) {
  let e = Math.floor(Math.log2(x)) + 1, m = x / 2 ** e; // m in [1/2, 1), put right where log2 was rounded
  if (m >= 1) { m /= 2; e++; } else if (m < 0.5) { m *= 2; e--; }
  if (m < 0.7071067811865476) { m *= 2; e--; }
  const s = (m - 1) / (m + 1);
  return e * 0.6931471805599453 + 2 * s * poly(ODD, s * s);
}
function normal(low, high) {
  const p = (high * 2 ** 20 + (low >>> 12) + 0.5) * 2 ** -53, q = 0.5 - p, r = q > 0.425 ? Math.sqrt(-log(p)) : 0;
  return (low & 1 ? -1 : 1) * (q <= 0.425 ? q * ratio(C, 0.180625 - q * q) : r <= 5 ? ratio(M, r - 1.6) : ratio(T, r - 5));
}
function philox(c, seed) {
  let [k0, k1] = [Number(seed & 0xffffffffn), Number(seed >> 32n)];
  for (let i = 0; i < 10; i++, k0 = (k0 + 0x9e3779b9) >>> 0, k1 = (k1 + 0xbb67ae85) >>> 0) {
    const [a, b] = [BigInt(c[0]) * 0xd2511f53n, BigInt(c[2]) * 0xcd9e8d57n];
    c = [Number(b >> 32n) ^ c[1] ^ k0, Number(b & 0xffffffffn), Number(a >> 32n) ^ c[3] ^ k1, Number(a & 0xffffffffn)].map((w) => w >>> 0);
  }
  return c;
}
for (const line of process.argv.slice(2)) {
  const [seed, units, rank, fanIn] = line.split(" "), hash = createHash("sha256");
  for (const [stream, width] of [[0, +rank], [1, +fanIn]]) {
    const draw = Float32Array.from({ length: units * width }, (_, i) => {
      const [unit, coordinate] = [Math.floor(i / width), i % width], w = philox([coordinate >> 1, unit, stream, 0], BigInt(seed));
      return coordinate % 2 ? normal(w[2], w[3]) : normal(w[0], w[1]);
    });
    hash.update(draw);
  }
  console.log(hash.digest().readBigInt64LE(0).toString());
}
