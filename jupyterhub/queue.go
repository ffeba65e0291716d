package jupyterhub

import (
	_ "embed" // the snippet that the hub runs
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
)

//go:embed files/queue.py
var queueSnippet string

// queueLabel names the queue of Kueue's in which a pod waits (kubernetes-sigs/kueue v0.19.2,
// pkg/controller/constants).
const queueLabel = "kueue.x-k8s.io/queue-name"

// queueTimeout is how long a server may wait in a queue, and then start.
const queueTimeout = 8 * time.Hour

// waits says whether servers of a profile wait in the hub's queue. Those without a GPU never do.
func (h Hub) waits(p spec.HubProfile) bool { return h.Queue != "" && usesGPU(p) }

// queue is the input of the snippet: the profiles that wait, and for how long. The default profile is
// that of a start that names none.
func (h Hub) queue() map[string]any {
	waiting := []string{}
	for _, p := range h.Profiles {
		if slices.ContainsFunc(spec.Variants(p), h.waits) {
			waiting = append(waiting, p.Name)
		}
	}
	return map[string]any{"name": h.Queue, "profiles": anys(waiting), "default": h.first().Name, "timeout": seconds(queueTimeout)}
}
