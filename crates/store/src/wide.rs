//! What newer x86 CPUs do in fewer instructions: the one place that asks the CPU what it has.
//!
//! The problem: a build for every x86-64 CPU may not use what nearly all of them have had since 2013, and a checksum of
//! three words costs it some fifty instructions of shifts. A build for this machine only would not start on another.
//! The idea: a token that exists only where the CPU was found to have it all. Whoever holds it may have a piece of work
//! compiled once more for such a CPU ([`Wide::run`]), and calls in it what needs it ([`Wide::crc16`]).
//!
//! Measured when it was made: without it RL.SLIDE at pipeline 16 took about a tenth more instructions.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function compiled for another CPU can be called in no other way")
)]

use ::wide::u32x8;

/// A piece of work that is worth being compiled for newer CPUs too: a hot loop. A trait and no closure, as only of a
/// method it can be said that it is always put in line, without which it would be compiled as everything else is.
pub trait Work {
    /// What it comes to.
    type Output;

    /// Does it. To be marked as always in line.
    fn run(self) -> Self::Output;
}

/// How many numbers a CPU compares at once.
pub trait Lanes: Copy {
    /// A bit for each of `numbers` that is `wanted`, the first one lowest.
    fn places(self, wanted: u32, numbers: &[u32; 8]) -> u32;
}

/// As many as the build's own CPU.
#[derive(Clone, Copy, Debug)]
pub struct Narrow;

impl Lanes for Narrow {
    #[inline(always)]
    fn places(self, wanted: u32, numbers: &[u32; 8]) -> u32 {
        u32x8::new(*numbers).simd_eq(u32x8::splat(wanted)).to_bitmask()
    }
}

impl Lanes for Wide {
    #[inline(always)]
    fn places(self, wanted: u32, numbers: &[u32; 8]) -> u32 {
        self.equal_of_eight(wanted, numbers)
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub use other::Wide;
#[cfg(target_arch = "x86_64")]
pub use x86::Wide;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x,
        _mm_xor_si128, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_movemask_ps, _mm256_set_epi32,
        _mm256_set1_epi32,
    };

    /// Proof that this CPU has AVX2, BMI1, BMI2 and carry-less multiplication.
    #[derive(Clone, Copy, Debug)]
    pub struct Wide(());

    impl Wide {
        /// The proof, if there is one.
        pub fn detect() -> Option<Wide> {
            is_there().then_some(Wide(()))
        }

        /// Does `work`, compiled for such a CPU as far as it is in line with its caller.
        #[inline(always)]
        pub fn run<W: super::Work>(self, work: W) -> W::Output {
            // SAFETY: the token exists only where the CPU has what the function was compiled for.
            unsafe { run(work) }
        }

        /// CRC-16/XMODEM of the 192 bits that three words are, the first the highest. Zeros in front change nothing.
        #[inline(always)]
        pub fn crc16(self, [first, second, third]: [u64; 3]) -> u16 {
            // SAFETY: the token exists only where the CPU has what the function was compiled for.
            unsafe { crc16(first, second, third) }
        }

        /// A bit for each of eight numbers that is `wanted`, the first one lowest.
        #[inline(always)]
        pub fn equal_of_eight(self, wanted: u32, numbers: &[u32; 8]) -> u32 {
            // SAFETY: the token exists only where the CPU has what the function was compiled for.
            unsafe { equal_of_eight(wanted, numbers.map(u32::cast_signed)) }
        }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq")]
    #[inline]
    fn equal_of_eight(wanted: u32, [a, b, c, d, e, f, g, h]: [i32; 8]) -> u32 {
        let equal =
            _mm256_cmpeq_epi32(_mm256_set_epi32(h, g, f, e, d, c, b, a), _mm256_set1_epi32(wanted.cast_signed()));
        _mm256_movemask_ps(_mm256_castsi256_ps(equal)).cast_unsigned()
    }

    fn is_there() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("pclmulqdq")
    }

    /// x^16 + x^12 + x^5 + 1.
    const POLYNOMIAL: u32 = 0x1_1021;

    #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq")]
    #[inline]
    fn run<W: super::Work>(work: W) -> W::Output {
        work.run()
    }

    /// The upper words are folded down by what x^128 and x^64 leave, then what is left of 64 bits is divided by
    /// Barrett's method: with polynomials the estimated quotient is exact. (V. Gopal and others, "Fast CRC computation
    /// for generic polynomials using PCLMULQDQ instruction", Intel, 2009.)
    #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq")]
    #[inline]
    fn crc16(first: u64, second: u64, third: u64) -> u16 {
        let folds = _mm_set_epi64x(i64::from(REST_OF_X64), i64::from(REST_OF_X128));
        let first = _mm_clmulepi64_si128::<0x00>(register(first), folds);
        let second = _mm_clmulepi64_si128::<0x10>(register(second), folds);
        // Eighty bits: the upper sixteen are folded once more.
        let folded = _mm_xor_si128(_mm_xor_si128(first, second), register(third));
        let rest = _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(folded, folds), folded);
        let product = _mm_clmulepi64_si128::<0x00>(rest, _mm_set_epi64x(0, QUOTIENT.cast_signed()));
        let quotient = _mm_cvtsi128_si64(rest) ^ _mm_extract_epi64::<1>(product);
        // The rest is the quotient times the polynomial, of which only the lowest sixteen bits count.
        (quotient ^ quotient << 5 ^ quotient << 12) as u16
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq")]
    #[inline]
    fn register(word: u64) -> __m128i {
        _mm_cvtsi64_si128(word.cast_signed())
    }

    const REST_OF_X64: u16 = rest_of_power(64);
    const REST_OF_X128: u16 = rest_of_power(128);
    /// x^80 divided by the polynomial, without the highest bit, which is x^64.
    const QUOTIENT: u64 = quotient_of_x80();

    /// What x^power leaves.
    const fn rest_of_power(power: u32) -> u16 {
        let (mut rest, mut done) = (1u32, 0);
        while done < power {
            rest <<= 1;
            if rest > 0xFFFF {
                rest ^= POLYNOMIAL;
            }
            done += 1;
        }
        rest as u16
    }

    const fn quotient_of_x80() -> u64 {
        let (mut rest, mut quotient, mut done) = (1u32, 0u64, 0);
        while done < 80 {
            rest <<= 1;
            quotient <<= 1;
            if rest > 0xFFFF {
                rest ^= POLYNOMIAL;
                quotient |= 1;
            }
            done += 1;
        }
        quotient
    }
}

/// No other CPU has the token.
#[cfg(not(target_arch = "x86_64"))]
mod other {
    /// As on x86, where it can exist.
    #[derive(Clone, Copy, Debug)]
    pub enum Wide {}

    impl Wide {
        /// `None`.
        pub fn detect() -> Option<Wide> {
            None
        }

        /// Never called.
        pub fn run<W: super::Work>(self, _work: W) -> W::Output {
            match self {}
        }

        /// Never called.
        pub fn equal_of_eight(self, _wanted: u32, _numbers: &[u32; 8]) -> u32 {
            match self {}
        }

        /// Never called.
        pub fn crc16(self, _words: [u64; 3]) -> u16 {
            match self {}
        }
    }
}
