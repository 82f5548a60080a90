package cluster

// Kill ends what a node does by itself, and leaves its leases as a process that is gone does.
func (n *Node) Kill() {
	if n.stopRenewing != nil {
		n.stopRenewing()
		_ = n.renewing.Wait()
	}
}
