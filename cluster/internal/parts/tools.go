package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube"
)

// toolParts are the parts of the platform that a tool looks after.
type toolParts struct {
	deployed []string // from Git
	kept     []string // bundles that have left Git
}

func partsOf(ctx context.Context, client *kube.Client, tool fleet.Tool) (p toolParts, err error) {
	state, err := fleet.Observe(ctx, client, fleet.StatusOptions{Tool: tool})
	if err != nil {
		return p, err
	}
	for _, b := range state.Bundles {
		switch {
		case b.Part == "": // a bundle of others
		case b.State == fleet.StateKept:
			p.kept = append(p.kept, b.Name)
		case !slices.Contains(p.deployed, b.Part):
			p.deployed = append(p.deployed, b.Part)
		}
	}
	return p, nil
}

// toolsOf are the tools that could no longer look after anything without a part.
func toolsOf(r Record) []fleet.Tool {
	switch r.Part {
	case platform.GitOps:
		return fleet.Tools()
	case "fleet-crd":
		return []fleet.Tool{fleet.ToolFleet}
	}
	return slices.DeleteFunc(fleet.Tools(), func(t fleet.Tool) bool { return string(t) != r.Part })
}

// checkToolUnused refuses to remove a tool, and what points it at the repository, while parts are in its care: it would
// delete them, or leave objects that nobody could delete any more. If the file has a repository, our folder in it is
// emptied first ([emptyFolder]).
func checkToolUnused(ctx context.Context, of *spec.Spec, client *kube.Client, r Record) error {
	if f, _ := of.Platform.GitOps(); r.Part == platform.GitOps && f != nil && f.Repo != "" {
		return nil
	}
	for _, tool := range toolsOf(r) {
		its, err := partsOf(ctx, client, tool)
		switch {
		case err != nil:
			return err
		case len(its.deployed) > 0:
			return InUse(fmt.Sprintf("part %s is no longer in the file but stays: %s still deploys %s from Git: write its section again as it was, with default: direct and without charts.via, "+
				"and run cluster:up, which takes them out of Git; then remove the section", r.Part, tool.Title(), suggest.FirstOf(its.deployed)))
		case len(its.kept) > 0:
			return InUse(fmt.Sprintf("part %s is no longer in the file but stays: %s still looks after %s, which is no longer in Git: make it let go, without uninstalling it: %s",
				r.Part, tool.Title(), its.kept[0], tool.LetGo(its.kept[0])))
		}
	}
	return nil
}

// waitSourceReleased waits until a tool has let go of what pointed it at the repository. It alone removes the finalizers
// from that, and may leave in the same run.
func waitSourceReleased(ctx context.Context, of *spec.Spec, client *kube.Client, r Record) error {
	if r.Part != platform.GitOps {
		return nil
	}
	rule := converge.WaitRule{What: "waiting until the tool has let its repository go", Limit: 2 * time.Minute, Poll: run.PollInterval,
		TimeoutText: "what pointed it at the repository is still there"}
	return run.Until(ctx, of, rule, func(ctx context.Context) (string, error) {
		for _, ref := range r.After {
			err := client.Get(ctx, objectOf(ref))
			if errors.Is(err, kube.ErrNotFound) || errors.As(err, new(*kube.NoKindError)) {
				continue
			}
			return ref.String() + " is there", err
		}
		return "", nil
	})
}
