"""What must hold in the cluster state and the store, whatever clients see."""
