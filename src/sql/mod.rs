//! SIMJOIN text.
