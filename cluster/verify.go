package cluster

import (
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/verification"
	"github.com/cps-gpu/homelab/converge"
)

// Verification is a running or finished proof that every GPU computes.
type Verification = verification.Verification

// GPUResult is the result for one GPU of one node.
type GPUResult = verification.Result

// VerifyLevel says how much a verification does.
type VerifyLevel = verification.Level

// The levels.
const (
	VerifyQuick = verification.Quick
	VerifyFull  = verification.Full
	VerifyBurn  = verification.Burn
	// BurnTime is how long VerifyBurn loads GPUs if nobody says.
	BurnTime = verification.BurnTime
)

// GPUVerify prepares a Job for each node with GPUs, which computes on every one of them, and the
// checks of the level; burn is for VerifyBurn, 0 means BurnTime. Run the graph, then read the
// Results and Checks.
func (c *Cluster) GPUVerify(level VerifyLevel, burn time.Duration) (*converge.Graph, *Verification) {
	return verification.New(verification.Config{Spec: c.spec, Members: c.members, Nodes: c.nodes}, level, burn)
}
