//! Coverage of real models.

mod case;
mod damage;
mod definition;
mod suites;
