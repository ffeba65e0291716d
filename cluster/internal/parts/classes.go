package parts

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// classesStep deletes storage classes that no tool brings up to date. Parameters are immutable: Helm's force replaces an
// object by an update (helm v4 pkg/kube/client.go, replaceResource), and Argo CD's comparison already fails
// (gitops-engine pkg/diff, serverSideDiff); the tool creates the class again. What leaves a part with data Flux and Argo
// CD keep. Volumes need no class to be mounted.
func classesStep(s *Steps, p addon.Recipe) *converge.Resource[[]outdatedClass] {
	return &converge.Resource[[]outdatedClass]{
		ID: "classes/" + p.Name,
		Observe: func(ctx context.Context) ([]outdatedClass, error) {
			client, err := s.Kube(ctx)
			if err != nil {
				return nil, err
			}
			return outdatedClasses(ctx, client, p)
		},
		Diff: func(all []outdatedClass) (d converge.Diff) {
			for _, c := range all {
				if c.leaves {
					d = append(d, converge.Field{Path: "storageclass/" + c.ref.Name, Have: "there", Effect: converge.Remove, Note: classLeaves})
				} else {
					d = append(d, converge.Field{Path: "storageclass/" + c.ref.Name, Have: "live object", Want: "as in Git", Effect: converge.Replace,
						Note: s.tool().Title() + " creates it again; its volumes stay"})
				}
			}
			return d
		},
		Apply: func(ctx context.Context, all []outdatedClass) error {
			client, err := s.Kube(ctx)
			if err != nil {
				return err
			}
			for _, c := range all {
				converge.Progressf(ctx, "removing %s", c.ref)
				if err := client.Delete(ctx, objectOf(c.ref)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// outdatedClass is a class of ours that left the file, or whose fields cannot become those of the file.
type outdatedClass struct {
	ref    kube.Ref
	leaves bool
}

func outdatedClasses(ctx context.Context, client *kube.Client, p addon.Recipe) ([]outdatedClass, error) {
	live, err := client.List(ctx, "storage.k8s.io/v1", classKind, "", addon.ClassesOf(p.Name))
	if err != nil {
		return nil, err
	}
	var out []outdatedClass
	for _, c := range live {
		if !slices.Contains(p.Classes, c.GetName()) {
			out = append(out, outdatedClass{ref: kube.Ref{APIVersion: "storage.k8s.io/v1", Kind: classKind, Name: c.GetName()}, leaves: true})
		}
	}
	for _, o := range p.After {
		if o.GetObjectKind().GroupVersionKind().Kind != classKind {
			continue
		}
		d, err := client.Diff(ctx, o)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(d, func(f converge.Field) bool { return f.Effect == converge.Replace }) {
			out = append(out, outdatedClass{ref: refsOf([]runtime.Object{o})[0]})
		}
	}
	return out, nil
}
