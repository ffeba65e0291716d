package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/secret"
)

// Entrance is the address where users reach a part of the platform.
type Entrance struct {
	Part  string `json:"part"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Entrances are the addresses that the file gives a name.
func (c *Cluster) Entrances() []Entrance {
	p := &c.spec.Platform
	scheme := "http://"
	if p.TLS != nil {
		scheme = "https://"
	}
	var out []Entrance
	if p.Hub != nil {
		out = append(out, Entrance{Part: "jupyterhub", Title: "notebooks", URL: platform.Hub(c.spec).URL()})
	}
	if p.Rancher != nil {
		out = append(out, Entrance{Part: "rancher", Title: "Rancher", URL: "https://" + p.Rancher.Hostname})
	}
	if p.Monitoring != nil && p.Monitoring.Hostname != "" {
		out = append(out, Entrance{Part: "monitoring", Title: "Grafana", URL: scheme + p.Monitoring.Hostname})
	}
	return out
}

// Password is a generated secret that a user wants to read once.
type Password struct {
	Title                string
	Namespace, Name, Key string // of the Secret
}

// Passwords are the passwords that the parts of the file generate for users.
func (c *Cluster) Passwords() []Password {
	p := &c.spec.Platform
	var out []Password
	if p.Hub != nil {
		for _, n := range platform.Hub(c.spec).Notes() {
			out = append(out, Password{Title: n.Title, Namespace: n.Namespace, Name: n.Name, Key: n.Key})
		}
	}
	if p.Rancher != nil && p.Rancher.Bootstrap.IsZero() {
		out = append(out, Password{Title: "first login of admin to Rancher", Namespace: "cattle-system", Name: "bootstrap-secret", Key: "bootstrapPassword"})
	}
	if p.Monitoring != nil {
		out = append(out, Password{Title: "user admin of Grafana", Namespace: "monitoring", Name: "grafana-admin", Key: "admin-password"})
	}
	return out
}

// ReadPassword reads a password from the cluster.
func (c *Cluster) ReadPassword(ctx context.Context, p Password) (secret.Value, error) {
	client, err := c.members.Kube(ctx)
	if err != nil {
		return secret.Value{}, err
	}
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if err := client.Get(ctx, s); err != nil {
		return secret.Value{}, err
	}
	if len(s.Data[p.Key]) == 0 {
		return secret.Value{}, fmt.Errorf("secret %s/%s has no %s", p.Namespace, p.Name, p.Key)
	}
	return secret.New(string(s.Data[p.Key])), nil
}

// Hub is the hub that the file describes, without its secrets.
func (c *Cluster) Hub() (jupyterhub.Hub, bool) {
	if c.spec.Platform.Hub == nil {
		return jupyterhub.Hub{}, false
	}
	return platform.Hub(c.spec), true
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
	for _, p := range c.parts.Pieces() {
		x := Part{Name: p.Name, Via: p.Via, Classes: p.Classes}
		if p.Release != nil {
			x.Chart, x.Namespace = p.Release.Chart+" "+p.Release.Version, p.Release.Namespace
		}
		out = append(out, x)
	}
	return out
}
