package cluster

import (
	"context"
	"io"
	"time"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/internal/rescue"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Certificates are those of Kubernetes on one node.
type Certificates struct {
	Node string        `json:"node"`
	Role string        `json:"role"`
	All  []Certificate `json:"certificates"` // the first to end first
	Err  error         `json:"-"`            // why they could not be read
}

// Certificate is one of them.
type Certificate struct {
	File      string    `json:"file"`    // without its folder, unless that tells more than the name, as etcd/
	Subject   string    `json:"subject"` // its common name
	Authority bool      `json:"authority,omitempty"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
}

// Backup saves a snapshot of etcd on a running server and writes it to w with all that a
// restore needs, encrypted to these recipients and signed with a key of this run, if it has one.
// It leaves nothing on the server. The SHA-256 is that of what was written.
func (c *Cluster) Backup(ctx context.Context, w io.Writer, to []age.Recipient) (m backup.Manifest, sum string, err error) {
	return c.site.flow().rescue().Backup(ctx, w, to)
}

// Restore brings Kubernetes back to the state of a backup: on the same machines, or on others
// that Up has made of the same file. Servers and agents restart; their pods keep running.
// open opens the backup's file; it may be called several times. Interrupted, it has to be
// repeated: until then Kubernetes is stopped on the servers.
func (c *Cluster) Restore(m backup.Contents, open func() (*backup.Reader, io.Closer, error)) (*converge.Graph, error) {
	return c.site.flow().rescue().Restore(rescue.Source{
		SavedSnapshot: distribution.SavedSnapshot{Name: m.Snapshot, Size: m.Size, SHA256: m.SHA256}, Key: m.Token,
		Made: m.Made.UTC().Format("2006-01-02 15:04:05 UTC"), Version: m.Version(), Of: m.Distribution(),
		Open: func(context.Context) (io.ReadCloser, error) {
			r, file, err := open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{r, file}, nil
		},
	})
}

// IsTrustedKey reports whether a key that signed a backup is one of the cluster's: a key of this run, or
// one of the file's ssh.publicKeys.
func (c *Cluster) IsTrustedKey(ctx context.Context, by ssh.PublicKey) (bool, error) {
	return c.site.flow().rescue().IsTrustedKey(ctx, by)
}

// RestoreSnapshot is Restore for a snapshot that one of the servers has, by its name.
func (c *Cluster) RestoreSnapshot(ctx context.Context, name string) (*converge.Graph, error) {
	f := c.site.flow()
	from, err := f.rescue().Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return f.rescue().Restore(from)
}

// Certs returns the certificates of K3s on all nodes. K3s renews those that are about to end
// when it starts.
func (c *Cluster) Certs(ctx context.Context) (out []Certificates) {
	for _, of := range c.site.flow().rescue().Certs(ctx) {
		certs := Certificates{Node: of.Node, Role: of.Role, Err: of.Err}
		for _, c := range of.All {
			certs.All = append(certs.All, Certificate(c))
		}
		out = append(out, certs)
	}
	return out
}

// RotateCerts makes new certificates on one node after the other. Pods keep running.
func (c *Cluster) RotateCerts() *converge.Graph { return c.site.flow().rescue().Rotate() }

func (c *site) rescue() *rescue.Rescue {
	return rescue.New(rescue.Config{Spec: c.spec, Members: c.members, Nodes: c.nodes, Distribution: c.distribution()})
}
