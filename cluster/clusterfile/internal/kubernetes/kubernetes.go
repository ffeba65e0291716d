// Package kubernetes completes and checks what a file says of the Kubernetes that it has, unless that is K3s.
package kubernetes

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// rules are what one distribution makes of a file. Its section has its name.
type rules struct {
	name    string
	section any               // in the file
	other   map[string]string // its keys that are K3s' by another name; "" for a key of K3s' name with another meaning
	choose  func(*decode.Checker, *spec.Spec)
	node    func(*decode.Checker, *spec.Spec, *spec.Node) // may be nil
	check   func(*decode.Checker, *spec.Spec)             // of the whole file, before anything is made; may be nil
}

// all are the distributions besides K3s.
func all(s *spec.Spec) []rules {
	return []rules{kubeadmRules(s), talosRules(s)}
}

// of are the rules of a file; false: it has K3s.
func of(s *spec.Spec) (rules, bool) {
	i := slices.IndexFunc(all(s), func(r rules) bool { return r.name == s.Distribution })
	if i < 0 {
		return rules{}, false
	}
	return all(s)[i], true
}

// Choose reports whether another distribution than K3s runs Kubernetes. Its section is then where that of K3s is,
// completed and checked; and nothing of K3s' own is there.
func Choose(c *decode.Checker, s *spec.Spec) bool {
	for _, r := range all(s) {
		if r.name == s.Distribution {
			continue
		}
		if c.IsSet(r.section) {
			c.Wrong(r.section, r.name+" is configured, and does not run Kubernetes here", "write distribution: "+r.name+", or remove "+r.name)
		}
		reflect.ValueOf(r.section).Elem().SetZero() // its defaults
	}
	r, other := of(s)
	if !other {
		return false
	}
	if c.IsSet(&s.K3s) {
		c.Wrong(&s.K3s, "K3s is configured, and "+r.name+" runs Kubernetes", "write the keys in "+r.name+", which has: "+strings.Join(decode.Keys(reflect.TypeOf(r.section).Elem()), ", "))
	}
	for _, key := range decode.Keys(reflect.TypeOf(r.section).Elem()) {
		if at := decode.FieldPlace(&s.K3s, r.keyOfK3s(key)); at != nil {
			move(c, decode.FieldPlace(r.section, key), at)
		}
	}
	s.K3s.Disable = []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes"}
	r.choose(c, s)
	return true
}

// keyOfK3s is K3s' name of a key of the section.
func (r rules) keyOfK3s(key string) string {
	if k3s, named := r.other[key]; named {
		return k3s
	}
	return key
}

// move puts a value, with its place and those in it, elsewhere.
func move(c *decode.Checker, from, to any) {
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	b.Set(a)
	c.Move(to, from)
	if decode.IsSection(a.Type()) {
		for _, key := range decode.Keys(a.Type()) {
			move(c, decode.FieldPlace(from, key), decode.FieldPlace(to, key))
		}
	}
	a.SetZero()
}

// CheckNode completes and checks a node.
func CheckNode(c *decode.Checker, s *spec.Spec, n *spec.Node) {
	if r, other := of(s); other && r.node != nil {
		r.node(c, s, n)
	}
}

// Check refuses what the distribution cannot do, before anything is made.
func Check(c *decode.Checker, s *spec.Spec) {
	if r, other := of(s); other && r.check != nil {
		r.check(c, s)
	}
}

// k3sKey is a key of K3s' section in a text.
var k3sKey = regexp.MustCompile(`\bk3s\.([a-zA-Z]+)`)

// Reword names the file's section in what was found about keys that are also K3s'.
func Reword(c *decode.Checker, s *spec.Spec) {
	r, other := of(s)
	if !other {
		return
	}
	keys := decode.Keys(reflect.TypeOf(r.section).Elem())
	here := func(text string) string {
		text = strings.ReplaceAll(text, "k3s: {vip:", r.name+": {vip:")
		return k3sKey.ReplaceAllStringFunc(text, func(found string) string {
			key := strings.TrimPrefix(found, "k3s.")
			for own, k3s := range r.other {
				if k3s == key {
					return r.name + "." + own
				}
			}
			if slices.Contains(keys, key) {
				return r.name + "." + key
			}
			return found
		})
	}
	for _, list := range []spec.Problems{c.Problems, c.Warnings} {
		for i := range list {
			list[i].What, list[i].Cure = here(list[i].What), here(list[i].Cure)
		}
	}
}
