package distribution

import (
	"context"
	"net"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Imager is a [Distribution] whose machines boot an image that is complete (Node.Boot is set): they are not cloned from a
// template, nobody logs in, and nothing is installed on them.
type Imager interface {
	// Port is where a machine answers first, e.g. 50000.
	Port() string
	// FirstBoot is the disc that a machine finds. It has no secret: others can read the storage.
	FirstBoot(m cloudinit.Machine) (cloudinit.NoCloud, error)
	// ImageURL is where the image of a machine is. Another image at the same address is not used.
	ImageURL(n spec.Node) (string, error)
	// Image is that image with its checksum, which may have to be downloaded first.
	Image(ctx context.Context, n spec.Node) (spec.CloudImage, error)
}

// Opener is a [Distribution] that keeps something beside the file, such as secrets. Open is called before a run
// changes anything.
type Opener interface {
	Open(ctx context.Context) error
}

// Forgetter is a [Distribution] whose etcd keeps the member of a server whose Node was deleted.
type Forgetter interface {
	// Forget removes it, by way of another server. A machine that has no member, or is the only server, is left alone.
	Forget(ctx context.Context, node string) error
}

// Inspector is a [Distribution] that looks at a machine which somebody else has set up, before a run changes anything.
type Inspector interface {
	// Inspect says all that keeps Kubernetes from it, as [ErrUnfit]. A member is not asked for more.
	Inspect(ctx context.Context, n spec.Node) error
}

// Site is how a [Distribution] reaches the machines of a file.
type Site struct {
	Spec *spec.Spec
	// Root runs commands on a machine where a login is possible.
	Root func(machine string) remote.Runner
	// Dial connects to a machine's address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ReadStart reads the first bytes of a file of a machine by its guest agent; proxmox.ErrShort: it has fewer.
	ReadStart func(ctx context.Context, machine, file string, count int) ([]byte, error)
	Token     secret.Value // the secret of the API token; may be zero
	Dir       string       // where this computer keeps files of the cluster that can be lost
}

// Maker makes the Distribution of a cluster, for one run.
type Maker func(Site) Distribution
