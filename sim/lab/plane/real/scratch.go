package real

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// Snapshot is what a scratch control plane starts from.
type Snapshot struct {
	File       []byte       // of etcd, with its SHA-256 at the end
	Encryption []byte       // the API server's configuration with the key of Secrets; nil: they are plain
	Services   netip.Prefix // of the cluster; the zero value: K3s' own
}

// Contents are the objects that an API server has read from a snapshot.
type Contents struct {
	Objects map[schema.GroupResource]int
	Unread  map[schema.GroupResource]error // e.g. versions that a webhook of the cluster would convert
}

// Read starts etcd and an API server from a snapshot, on loopback, has every object read, and
// ends them. No controller runs, so nothing that is in the snapshot acts.
func Read(ctx context.Context, opts Options, s Snapshot) (*Contents, error) {
	n := plane.Defaults()
	n.PlainSecrets = s.Encryption == nil
	if s.Services.IsValid() {
		n.Services = s.Services
	}
	cp := &controlPlane{
		Networks: n, exe: opts.Exe, logs: opts.Logs, log: slog.New(slog.DiscardHandler), dir: filepath.Join(opts.Dir, "scratch"),
		saved: &guest.PlaneSaved{Snapshot: s.File, Encryption: s.Encryption}, reads: true,
	}
	if err := startControlPlane(ctx, cp); err != nil {
		return nil, err
	}
	defer cp.Stop()
	return cp.contents(ctx)
}

// contents has the API server decode every object, and counts them.
func (cp *controlPlane) contents(ctx context.Context) (*Contents, error) {
	client, err := metadata.NewForConfig(cp.config)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	kinds, err := cp.kinds(ctx, client)
	if err != nil {
		return nil, err
	}
	out := &Contents{Objects: map[schema.GroupResource]int{}, Unread: map[schema.GroupResource]error{}}
	for _, k := range kinds {
		n, err := count(ctx, client.Resource(k))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if out.Objects[k.GroupResource()] = n; err != nil {
			out.Unread[k.GroupResource()] = err
		}
	}
	return out, nil
}

func count(ctx context.Context, client metadata.Getter) (n int, err error) {
	const page = 500
	o := metav1.ListOptions{Limit: page}
	for {
		list, err := client.List(ctx, o)
		if err != nil {
			return n, err
		}
		n += len(list.Items)
		if o.Continue = list.Continue; o.Continue == "" {
			return n, nil
		}
	}
}

// kinds are what can be listed. Those of the snapshot's own definitions are served a moment
// after the start.
func (cp *controlPlane) kinds(ctx context.Context, client metadata.Interface) ([]schema.GroupVersionResource, error) {
	definitions, err := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("definitions of kinds: %w", err)
	}
	const patience = 2 * time.Minute // the discovery of new kinds is slow where a busy machine has one processor for it
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out []schema.GroupVersionResource
	err = cp.until(ctx, "the kinds that the snapshot defines", func(context.Context) error {
		out = nil
		served := map[string]bool{}
		groups, err := cp.client.Discovery().ServerPreferredResources() // whole but for APIs of other servers
		if len(groups) == 0 {
			return errors.Join(err, errors.New("no kind is served"))
		}
		for _, g := range groups {
			gv, _ := schema.ParseGroupVersion(g.GroupVersion)
			for _, r := range g.APIResources {
				// What cannot be watched is in no etcd, and events have two names.
				if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "list") && gv.Group != "events.k8s.io" {
					k := gv.WithResource(r.Name)
					out, served[k.GroupResource().String()] = append(out, k), true
				}
			}
		}
		for _, d := range definitions.Items {
			if !served[d.Name] {
				return fmt.Errorf("%s is not served", d.Name)
			}
		}
		return nil
	})
	return out, err
}
