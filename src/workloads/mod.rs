//! The workloads, one file per shape. A new one is a file and its line in [`ALL`].

mod agenda;
pub mod burst;
mod calls;
pub mod mixed;
pub mod obedient;
pub mod open;
pub mod retry;
pub mod sequence;
pub mod steady;

use crate::model::scenario::Shape;
use crate::ports::workload::Workload;

pub static ALL: &[&dyn Workload] = &[
    &burst::Burst,
    &steady::Steady,
    &sequence::Sequence,
    &mixed::Mixed,
    &obedient::Obedient,
    &open::Open,
    &retry::Retry,
];

/// The workload of a shape.
///
/// # Panics
/// If a shape has no workload, which the test below rules out.
pub fn of(shape: Shape) -> &'static dyn Workload {
    *ALL.iter().find(|w| w.shape() == shape).expect("every shape has a workload")
}

/// How many connections a node has when `connections` are dealt out to `nodes` in turn.
pub fn connections_of(node: u32, connections: u32, nodes: u32) -> u32 {
    connections / nodes + u32::from(node < connections % nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_a_workload() {
        for shape in Shape::ALL {
            assert_eq!(of(shape).shape(), shape);
        }
    }

    #[test]
    fn connections_are_dealt_out_without_loss() {
        for connections in 1..40 {
            for nodes in 1..=connections {
                let sum: u32 = (0..nodes).map(|n| connections_of(n, connections, nodes)).sum();
                assert_eq!(sum, connections);
            }
        }
    }
}
