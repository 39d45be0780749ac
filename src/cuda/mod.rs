//! NVIDIA GPUs, through their driver alone.

pub mod abi;
