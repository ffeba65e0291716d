package rescue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Config is what a Rescue needs.
type Config struct {
	Spec         *spec.Spec
	Members      *members.Members
	Nodes        *nodes.Nodes
	Distribution distribution.Distribution
}

// Rescue works on the machines of one cluster. It is safe for concurrent use.
type Rescue struct{ Config }

// New makes a Rescue.
func New(c Config) *Rescue { return &Rescue{c} }

// askTime limits how long to ask one machine.
const askTime = 20 * time.Second

// prefix begins the names of the snapshots that Backup takes.
const prefix = "homelab-backup"

// Backup saves a snapshot on a server that runs, and writes it to w with all that a restore
// needs, encrypted to these recipients and signed with the key of this run. It leaves nothing on
// the server. The SHA-256 is that of what was written.
func (r *Rescue) Backup(ctx context.Context, w io.Writer, to []age.Recipient) (m backup.Manifest, sum string, err error) {
	server, have, err := r.running(ctx)
	if err != nil {
		return m, "", err
	}
	by, err := r.Nodes.Keys(ctx)
	if err != nil {
		return m, "", err
	}
	c, err := r.contents(ctx, server, have.State())
	if err != nil {
		return m, "", err
	}
	before := r.counts(ctx)
	snapshot, err := have.SaveSnapshot(ctx, prefix)
	if err != nil {
		return m, "", fmt.Errorf("%s: %w", server.Name, err)
	}
	defer func() { err = errors.Join(err, r.deleteFetched(ctx, server, snapshot)) }()
	after := r.counts(ctx)
	maps.DeleteFunc(before, func(resource string, n int) bool { return after[resource] != n })
	c.Objects = before
	c.Made, c.Snapshot, c.Size, c.SHA256 = time.Now().UTC().Truncate(time.Second), snapshot.Name, snapshot.Size, snapshot.SHA256
	converge.Progressf(ctx, "fetching it from %s, encrypted", server.Name)
	from, into := io.Pipe()
	go func() { into.CloseWithError(r.Distribution.Fetch(ctx, server.Name, snapshot, into)) }()
	defer func() { _ = from.Close() }()
	if sum, err = backup.Write(w, to, firstSigner(by), c, from); err != nil {
		return m, "", err
	}
	return c.Manifest, sum, nil
}

// firstSigner is the key that signs; nil: there is none.
func firstSigner(keys []ssh.Signer) ssh.Signer {
	if len(keys) == 0 {
		return nil
	}
	return keys[0]
}

// IsTrustedKey reports whether a key may log in to the cluster's machines as the file says, or with the
// keys of this run. Anyone who has such a key is root on the servers anyway, so a backup that it
// signed adds nothing to what its owner can do.
func (r *Rescue) IsTrustedKey(ctx context.Context, by ssh.PublicKey) (bool, error) {
	if by == nil {
		return false, nil
	}
	keys, err := r.Nodes.Keys(ctx)
	if err != nil {
		return false, err
	}
	for _, k := range keys {
		if bytes.Equal(k.PublicKey().Marshal(), by.Marshal()) {
			return true, nil
		}
	}
	for _, line := range r.Spec.Access.PublicKeys {
		if key, err := ssh.ParseAuthorizedKey(line); err == nil && bytes.Equal(key.Marshal(), by.Marshal()) {
			return true, nil
		}
	}
	return false, nil
}

// counts are how many objects there are, by resource. A backup does not need them: without an
// answer of the API there are none.
func (r *Rescue) counts(ctx context.Context) map[string]int {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := r.Members.Kube(ctx)
	if err != nil {
		return nil
	}
	out := map[string]int{}
	for _, k := range backup.Kinds() {
		if n, err := client.Count(ctx, k.APIVersion, k.Kind); err == nil {
			out[k.Resource] = n
		}
	}
	return out
}

// deleteFetched deletes the snapshot that was fetched, also when ctx has ended.
func (r *Rescue) deleteFetched(ctx context.Context, server spec.Node, s distribution.SavedSnapshot) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	return r.Distribution.Delete(ctx, server.Name, s)
}

// running finds a server that runs, the first of the file before the others.
func (r *Rescue) running(ctx context.Context) (spec.Node, distribution.Member, error) {
	var errs []error
	for _, n := range r.Spec.Servers() {
		have, err := r.observe(ctx, n)
		if err == nil {
			switch s := have.State(); {
			case s.Restoring != "":
				return n, have, r.Members.CutShortRestore(n.Name, s)
			case s.Role == spec.Server && s.Running:
				return n, have, nil
			}
			err = fmt.Errorf("%s does not run", r.title())
		}
		errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return spec.Node{}, nil, fmt.Errorf("%w: %w", members.ErrNoServer, errors.Join(errs...))
}

// title is what the cluster's Kubernetes is called.
func (r *Rescue) title() string { return r.Distribution.Facts().Title }

func (r *Rescue) observe(ctx context.Context, n spec.Node) (distribution.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return r.Members.Member(ctx, n)
}

// contents is what a backup has beside the snapshot. Its format has names for what K3s needs.
func (r *Rescue) contents(ctx context.Context, server spec.Node, have distribution.State) (backup.Contents, error) {
	c := backup.Contents{Manifest: backup.Manifest{Cluster: r.Spec.Name, Server: server.Name}.WithProgram(r.Distribution.Facts().Step, have.Version)}
	secrets, err := r.Distribution.Secrets(ctx, server.Name)
	if err != nil {
		return c, err
	}
	c.Token, c.AgentToken, c.Config = secrets["token"], secrets["agent-token"], []byte(secrets["config.yaml"].Reveal())
	if authorities, are := secrets[distribution.Authorities]; are {
		c.Token = authorities
	}
	if r.Spec.File != "" { // a program's own value has none
		if c.ClusterYAML, err = os.ReadFile(r.Spec.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return c, fmt.Errorf("the cluster's file: %s", printable.FirstLine(err.Error()))
		}
	}
	for _, n := range r.Spec.Nodes {
		switch n.Role {
		case spec.Server:
			c.Servers = append(c.Servers, n.Name)
		case spec.Agent:
			c.Agents = append(c.Agents, n.Name)
		}
	}
	return c, nil
}
