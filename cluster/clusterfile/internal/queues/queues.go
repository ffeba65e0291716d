// Package queues checks the groups that share the GPUs.
package queues

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
)

// checker checks a file's queues.
type checker struct {
	*decode.Checker
	spec *spec.Spec
}

// Check checks the queues of a file by themselves.
func Check(c *decode.Checker, s *spec.Spec) {
	r := checker{c, s}
	of := map[string]string{}
	for i := range r.spec.Platform.Queues {
		q := &r.spec.Platform.Queues[i]
		if !decode.DNSLabel.MatchString(q.Name) || q.Name == spec.DefaultQueue {
			r.Wrong(q, fmt.Sprintf("a queue cannot be called %q", q.Name), "write a name of lower-case letters, digits and hyphens, e.g. students")
		}
		if len(q.Namespaces) == 0 {
			r.Wrong(&q.Namespaces, fmt.Sprintf("the queue %s has no namespaces, so no pod waits in it", q.Name), "write namespaces: [course-a], or jupyterhub for notebooks")
		}
		for i, n := range q.Namespaces {
			at := &q.Namespaces[i]
			switch {
			case !decode.DNSLabel.MatchString(n):
				r.Wrong(at, fmt.Sprintf("%q cannot be a namespace", n), "write its name as kubectl get namespaces shows it")
			case of[n] != "":
				r.Wrong(at, fmt.Sprintf("the namespace %s is already in the queue %s", n, of[n]), "keep it in one of them")
			}
			of[n] = q.Name
		}
		if !q.Borrow.IsOn() && q.GPUs == 0 && len(q.MIG) == 0 {
			r.Wrong(q, fmt.Sprintf("the queue %s has no GPUs and may borrow none, so its pods wait forever", q.Name), "write gpus: 1 or more, or remove borrow: false")
		}
	}
}

// CheckOffers compares the queues with what the nodes offer. The nodes are complete.
func CheckOffers(c *decode.Checker, s *spec.Spec) {
	r := checker{c, s}
	if len(r.spec.Platform.Queues) == 0 || len(r.spec.Nodes) == 0 {
		return
	}
	offered := offer.All(r.spec)
	if len(offered) == 0 {
		r.Wrong(&r.spec.Platform.Queues[0], "no node offers GPUs, so queues have nothing to share", "write gpus: in a pool of nodes, or remove queues")
		return
	}
	given := map[string]int{}
	for i := range r.spec.Platform.Queues {
		q := &r.spec.Platform.Queues[i]
		for resource, n := range offer.Quota(*q) {
			at := r.quotaAt(q, resource)
			switch given[resource] += n; {
			case n < 0:
				r.Wrong(at, fmt.Sprintf("the queue %s has %d %s", q.Name, n, resource), "write 0 or more")
			case offered[resource] == 0 && n > 0:
				r.Wrong(at, fmt.Sprintf("no node offers %s", resource), "the nodes offer "+offer.GPUs{Resources: offered}.String())
			case n > 0 && given[resource] > offered[resource]:
				r.Wrong(at, fmt.Sprintf("the queues have %d %s, and the nodes offer %d", given[resource], resource, offered[resource]),
					"write less: a queue can always have its part, and borrows more")
			}
		}
	}
	r.profilesQueue(offered)
	r.modelsQueue()
}

func (r checker) quotaAt(raw *spec.Queue, resource string) any {
	for name := range raw.MIG {
		if nvidia.MIGResource(name) == resource {
			return r.MemberAt(&raw.MIG, name)
		}
	}
	return &raw.GPUs
}

// profilesQueue refuses profiles that want more than their queue can ever have.
func (r checker) profilesQueue(offered map[string]int) {
	h := r.spec.Platform.Hub
	if h == nil {
		return
	}
	queue, most := r.mostOf(h.Namespace)
	if queue == "" {
		return
	}
	for _, p := range spec.Variants(h.Profiles...) {
		for resource, n := range offer.Wants(p) {
			if n > most[resource] && offered[resource] > 0 && r.IsSet(h.Profile(p.Name)) {
				r.Wrong(h.Profile(p.Name), fmt.Sprintf("profile %s wants %d %s, and its queue %s can have %d at most", p.Name, n, resource, queue, most[resource]),
					"ask for less, or give the queues more")
			}
		}
	}
}

// modelsQueue refuses models that together want more than their queue can ever have.
func (r checker) modelsQueue() {
	q, most := r.mostOf(spec.ModelsNamespace)
	wants := 0
	for _, m := range r.spec.Platform.Models {
		wants += m.Replicas * m.GPUs
	}
	if q != "" && wants > most[nvidia.Resource] {
		r.Wrong(&r.spec.Platform.Models[0], fmt.Sprintf("the models want %d %s together, and their queue %s can have %d at most", wants, nvidia.Resource, q, most[nvidia.Resource]),
			"give the queues more, or remove "+spec.ModelsNamespace+" from its namespaces")
	}
}

// mostOf is the queue of a namespace, and what it can have if all others have nothing.
func (r checker) mostOf(namespace string) (queue string, most map[string]int) {
	q := r.spec.Platform.QueueOf(namespace)
	if q.Borrow.IsOn() {
		return q.Name, offer.Quota(r.spec.Platform.Queues...)
	}
	return q.Name, offer.Quota(q)
}
