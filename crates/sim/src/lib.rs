//! Seeded simulation of cores, links and clocks.
