package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/secret"
)

// Endpoint is the address where users reach a part of the platform.
type Endpoint struct {
	Part  string `json:"part"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Endpoints are the addresses that the file gives a name.
func (c *Cluster) Endpoints() []Endpoint {
	var out []Endpoint
	for _, p := range partsForUsers(c.site.spec) {
		if p.Web != nil {
			out = append(out, Endpoint{Part: p.Name, Title: p.Web.Title, URL: p.Web.URL})
		}
	}
	return out
}

// Callbacks are the addresses of a file to which a provider sends people back: it has to know them.
func Callbacks(s *spec.Spec) []Endpoint {
	var out []Endpoint
	for _, p := range partsForUsers(s) {
		for _, w := range p.Callbacks {
			out = append(out, Endpoint{Part: p.Name, Title: w.Title, URL: w.URL})
		}
	}
	return out
}

// partsForUsers are the parts, the hub first, which most people look for.
func partsForUsers(s *spec.Spec) []addon.Recipe {
	pieces, err := platform.Pieces(s, false)
	if err != nil { // the step charts reports it
		return nil
	}
	slices.SortStableFunc(pieces, func(a, b addon.Recipe) int {
		hub := func(p addon.Recipe) int {
			if p.Name == "jupyterhub" {
				return 0
			}
			return 1
		}
		return hub(a) - hub(b)
	})
	return pieces
}

// Password is a generated secret that a user wants to read once.
type Password struct {
	Title                string
	Namespace, Name, Key string // of the Secret
}

// Passwords are the passwords that the parts of a file generate for users.
func Passwords(s *spec.Spec) []Password {
	var out []Password
	for _, p := range partsForUsers(s) {
		for _, its := range p.Passwords {
			out = append(out, Password(its))
		}
	}
	return out
}

// Read reads a password from its cluster.
func (p Password) Read(ctx context.Context, client *kube.Client) (secret.Value, error) {
	data, err := client.SecretData(ctx, p.Namespace, p.Name)
	if err != nil {
		return secret.Value{}, err
	}
	if len(data[p.Key]) == 0 {
		return secret.Value{}, fmt.Errorf("secret %s/%s has no %s", p.Namespace, p.Name, p.Key)
	}
	return secret.New(string(data[p.Key])), nil
}

// Hub is the hub that the file describes, without its secrets.
func (c *Cluster) Hub() (jupyterhub.Hub, bool) {
	if c.site.spec.Platform.Hub == nil {
		return jupyterhub.Hub{}, false
	}
	return platform.Hub(c.site.spec), true
}

// Part describes a part of the platform, for users.
type Part struct {
	Name      string `json:"name"`
	Via       string `json:"via"`
	Chart     string `json:"chart,omitempty"` // name and version
	Namespace string `json:"namespace,omitempty"`

	Classes []string `json:"classes,omitempty"` // of storage
}

// Parts are the parts that the file asks for, in the order of their installation.
func (c *Cluster) Parts() []Part {
	var out []Part
	for _, p := range c.site.flow().parts.Pieces() {
		x := Part{Name: p.Name, Via: p.Via, Classes: p.Classes}
		if p.Release != nil {
			x.Chart, x.Namespace = p.Release.Chart+" "+p.Release.Version, p.Release.Namespace
		}
		out = append(out, x)
	}
	return out
}
