// SPDX-License-Identifier: Apache-2.0
//! The reference model against properties, hand-worked registers and the register description.

mod driver;
mod generated;
mod properties;
mod registers;
