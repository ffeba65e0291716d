package cluster

import (
	"context"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/verification"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// GPUResult is the result for one GPU of one node.
type GPUResult struct {
	Node string `json:"node"`
	check.VerifyResult
	// Note says what the result does not prove: if GPUs are shared, a pod gets one share, and the
	// node's other GPUs are not tested.
	Note string `json:"note,omitempty"`
}

// VerifyLevel says how much a verification does.
type VerifyLevel string

// The levels.
const (
	// VerifyQuick computes on every GPU, and judges what nvidia-smi reports on the nodes.
	VerifyQuick VerifyLevel = "quick"
	// VerifyFull also asks for one GPU more than each node offers, which must be refused, and has
	// systemd reload its units while a container holds the GPUs, which must keep them. It does the
	// latter only on nodes where nobody else holds a GPU. And it writes and reads volumes like
	// those that users get: of scratch, and of the hub's homes.
	//
	// Where an image with PyTorch or TensorFlow is named, it computes with them too, copies between
	// GPUs, and sums over the GPUs of a node and of all nodes.
	VerifyFull VerifyLevel = "full"
	// VerifyBurn loads every GPU that nobody else has for a while, in place of computing once, and
	// does the other checks of VerifyFull.
	VerifyBurn VerifyLevel = "burn"
)

// burnTime is how long VerifyBurn loads GPUs if nobody says.
const burnTime = 10 * time.Minute

// Verification is a running or finished proof that every GPU computes.
type Verification struct{ of *verification.Verification }

// Results are the results of all GPUs that have reported, in the order of the file.
func (v *Verification) Results() []GPUResult {
	var out []GPUResult
	for _, r := range v.of.Results() {
		out = append(out, GPUResult(r))
	}
	return out
}

// Checks are all checks so far, by node and GPU: those of the level, whether each GPU computes,
// and one that failed for each node that did not answer.
func (v *Verification) Checks() []check.Check { return v.of.Checks() }

// Clean removes the Jobs of this verification. Kubernetes deletes those of others after an hour.
func (v *Verification) Clean(ctx context.Context) error { return v.of.Clean(ctx) }

// GPUVerify prepares a Job for each node with GPUs, which computes on every one of them, and the
// checks of the level; burn is for VerifyBurn, 0 means burnTime. Run the graph, then read the
// Results and Checks.
func (c *Cluster) GPUVerify(level VerifyLevel, burn time.Duration) (*converge.Graph, *Verification) {
	switch {
	case level != VerifyBurn:
		burn = 0
	case burn == 0:
		burn = burnTime
	}
	f := c.site.flow()
	g, v := verification.New(verification.Config{Spec: f.spec, Members: f.members, Nodes: f.nodes, Quick: level == VerifyQuick, Burn: burn})
	return g, &Verification{v}
}
