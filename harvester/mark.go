package harvester

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What our objects carry. The label is for people and their selectors; the annotation decides.
const (
	prefix       = "homelab.cps-gpu.github.com/"
	clusterLabel = prefix + "cluster"
	// markAnnotation is the cluster and, unless the object is the whole cluster's, the namespace and name of the
	// machine: "a100 machines/a100-wk1".
	markAnnotation    = prefix + "mark"
	keysAnnotation    = prefix + "host-keys"
	devicesAnnotation = prefix + "devices"
	textAnnotation    = prefix + "lease"
)

// mark is the annotation's value for a machine of ours.
func (c *Client) mark(machine string) string { return c.owner + " " + c.namespace + "/" + machine }

// labels and annotations are those of an object for a machine of ours.
func (c *Client) labels() map[string]any { return map[string]any{clusterLabel: c.owner} }

func (c *Client) annotations(machine string) map[string]any {
	return map[string]any{markAnnotation: c.mark(machine)}
}

// tag marks a new object as one for a machine of ours.
func (c *Client) tag(u *unstructured.Unstructured, machine string) {
	u.SetLabels(map[string]string{clusterLabel: c.owner})
	u.SetAnnotations(map[string]string{markAnnotation: c.mark(machine)})
}

// owns reports whether an object is one for a machine of ours.
func (c *Client) owns(u *unstructured.Unstructured, machine string) bool {
	return u != nil && u.GetAnnotations()[markAnnotation] == c.mark(machine)
}

// machineOf is the machine of this cluster and namespace that an object is for.
func (c *Client) machineOf(u *unstructured.Unstructured) (name string, ok bool) {
	return strings.CutPrefix(u.GetAnnotations()[markAnnotation], c.owner+" "+c.namespace+"/")
}

// markOf are the owner and the machine that any object's mark names; empty if it has none.
func markOf(u *unstructured.Unstructured) (owner, machine string) {
	owner, machine, _ = strings.Cut(u.GetAnnotations()[markAnnotation], " ")
	return owner, machine
}
