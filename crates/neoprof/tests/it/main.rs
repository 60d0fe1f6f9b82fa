// SPDX-License-Identifier: Apache-2.0
//! Tests of the reference model: properties, registers worked out by hand, and the register description.

mod driver;
mod generated;
mod properties;
mod registers;
