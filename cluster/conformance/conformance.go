package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote"
)

// Result is the result for a requirement.
type Result string

// The results.
const (
	Passed        Result = "passed"
	Failed        Result = "failed"
	NotApplicable Result = "not applicable" // the requirement has a condition that this cluster does not meet
	NotShown      Result = "not shown"      // nothing contradicts it, and nothing on the cluster proves it yet
)

// Level says whether a requirement binds.
type Level string

// The levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Finding is what a cluster shows for one requirement.
type Finding struct {
	ID          string   `json:"id"`   // the programme's name of the requirement
	Area        string   `json:"area"` // the part of the programme's list
	Level       Level    `json:"level"`
	Result      Result   `json:"result"`
	Requirement string   `json:"requirement"` // in our words
	Evidence    []string `json:"evidence,omitempty"`
	Do          string   `json:"do,omitempty"` // what would make it pass, or prove it
}

// Sources are the ways to look at a cluster.
type Sources struct {
	Spec *spec.Spec
	Kube func(ctx context.Context) (*kube.Client, error)
	// Root runs commands as root on a machine.
	Root func(name string) remote.Runner
	// HasDriver says which nodes have NVIDIA's driver on the machine; nil: those with GPUs.
	HasDriver func(n spec.Node) bool
}

// Report is the result for all requirements.
type Report struct {
	Kubernetes   string    // version of the cluster, e.g. "v1.36.5+k3s1"
	Requirements string    // of which Kubernetes they are, e.g. "1.36"
	Findings     []Finding // in the order of the programme's list
}

// Missing are the requirements that bind and that the cluster does not show.
func (r Report) Missing() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool {
		return f.Level != Must || f.Result == Passed || f.Result == NotApplicable
	})
}

// cluster is what the checks look at.
type cluster struct {
	Sources
	kube *kube.Client
	apis []string // group/version/kind of all that is served
}

// Check compares a cluster with the requirements for its version of Kubernetes; isolation is the result
// of [CheckIsolation], nil if that did not run. An error is that the API cannot be asked, or that there
// are no requirements for this version.
func Check(ctx context.Context, s Sources, isolation *Finding) (Report, error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return Report{}, err
	}
	version, err := client.Version(ctx)
	if err != nil {
		return Report{}, err
	}
	list, err := listFor(version)
	if err != nil {
		return Report{}, err
	}
	c := &cluster{Sources: s, kube: client}
	if c.apis, err = client.APIs(ctx); err != nil {
		return Report{}, err
	}
	r := Report{Kubernetes: version, Requirements: fmt.Sprintf("1.%d", list)}
	for _, q := range requirements() {
		level := q.levels[list-oldest]
		if level == "" {
			continue
		}
		var f Finding
		if isolation != nil && q.id == isolationID {
			f = *isolation
		} else if f, err = q.check(c, ctx); err != nil {
			if ctx.Err() != nil {
				return Report{}, ctx.Err()
			}
			f = Finding{Result: NotShown, Evidence: []string{err.Error()}}
		}
		f.ID, f.Area, f.Level, f.Requirement = q.id, q.area, level, q.text
		r.Findings = append(r.Findings, f)
	}
	return r, nil
}

// version is the version of a kind in which the API serves it; empty: it is not served. Of several it is the
// stable one.
func (c *cluster) version(group, kind string) string {
	found := ""
	for _, api := range c.apis {
		parts := strings.Split(api, "/")
		if len(parts) == 3 && parts[0] == group && parts[2] == kind && (found == "" || !strings.Contains(parts[1], "a")) {
			found = parts[1]
		}
	}
	return found
}

// servesGroup reports whether anything of an API group is served.
func (c *cluster) servesGroup(group string) bool {
	return slices.ContainsFunc(c.apis, func(api string) bool { return strings.HasPrefix(api, group+"/") })
}

// list are all objects of a kind; none if it is not served.
func (c *cluster) list(ctx context.Context, group, kind string) ([]unstructured.Unstructured, error) {
	v := c.version(group, kind)
	if v == "" {
		return nil, nil
	}
	return c.kube.List(ctx, group+"/"+v, kind, "", "")
}

// holds reports whether a condition of an object is True.
func holds(u *unstructured.Unstructured, condition string) bool {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(one any) bool {
		m, _ := one.(map[string]any)
		return m["type"] == condition && m["status"] == "True"
	})
}

// some joins at most five names, and counts the rest.
func some(names []string) string {
	const most = 5
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// observation is what was seen of a node.
type observation struct{ node, text string }

// byText joins the nodes of which the same was seen, in their order.
func byText(all []observation) []string {
	var texts []string
	nodes := map[string][]string{}
	for _, o := range all {
		if nodes[o.text] == nil {
			texts = append(texts, o.text)
		}
		nodes[o.text] = append(nodes[o.text], o.node)
	}
	for i, text := range texts {
		texts[i] = some(nodes[text]) + ": " + text
	}
	return texts
}

// path names an object: its namespace, if it has one, and its name.
func path(u *unstructured.Unstructured) string {
	return strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
}
