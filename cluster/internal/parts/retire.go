package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

const (
	claimKind = "PersistentVolumeClaim"
	classKind = "StorageClass"

	classLeaves = "no longer in the file; its volumes stay"
)

// CheckUnused refuses to remove a part that something needs: the operator of databases, queues with pods, a
// provisioner whose volumes could no longer be mounted or deleted. What belongs to parts that leave before it
// does not count, nor do claims that are being deleted.
func (s *Steps) CheckUnused(ctx context.Context, client *kube.Client, r Record, leaving ...Record) error {
	switch r.Part {
	case addon.PostgresName, addon.PostgresBackupName:
		return s.checkDatabasesUnused(ctx, client, r, leaving)
	case addon.KueueName:
		return checkQueuesUnused(ctx, client)
	case platform.GitOps, "fleet", "fleet-crd", "flux", "argocd":
		return checkToolUnused(ctx, s.Spec, client, r)
	}
	claims, err := boundClaims(ctx, client, r)
	if err != nil {
		return err
	}
	var stay []string
	for _, claim := range claims {
		goes, err := claimGoes(ctx, client, claim, slices.DeleteFunc(slices.Clone(leaving), func(l Record) bool { return l.Part == r.Part }))
		if err != nil {
			return err
		}
		if !goes {
			stay = append(stay, claim.Namespace+"/"+claim.Name)
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return InUse(fmt.Sprintf("part %s is no longer in the file but stays: volumes of %s are in use and could not be mounted without it: %s: "+
		"move their data and delete these claims, or add the part to the file again", r.Part, strings.Join(r.Classes, ", "), suggest.FirstOf(stay)))
}

// waitVolumesReleased waits until the last claims of a part's classes are gone, whose pods end a while after what has
// started them.
func waitVolumesReleased(ctx context.Context, of *spec.Spec, client *kube.Client, r Record) error {
	rule := converge.WaitRule{What: "waiting until the last claims of " + strings.Join(r.Classes, ", ") + " are deleted", Limit: 5 * time.Minute,
		Poll: run.PollInterval, TimeoutText: "claims that are being deleted are still there"}
	return run.Until(ctx, of, rule, func(ctx context.Context) (string, error) {
		claims, err := boundClaims(ctx, client, r)
		if err != nil || len(claims) == 0 {
			return "", err
		}
		var names []string
		for _, claim := range claims {
			names = append(names, claim.Namespace+"/"+claim.Name)
		}
		return "being deleted: " + suggest.FirstOf(names), nil
	})
}

// boundClaims are the claims that are bound to volumes of a part's classes.
func boundClaims(ctx context.Context, client *kube.Client, r Record) ([]kube.Ref, error) {
	if len(r.Classes) == 0 {
		return nil, nil
	}
	volumes, err := client.List(ctx, "v1", "PersistentVolume", "", "")
	if err != nil {
		return nil, err
	}
	var out []kube.Ref
	for _, v := range volumes {
		class, _, _ := unstructured.NestedString(v.Object, "spec", "storageClassName")
		phase, _, _ := unstructured.NestedString(v.Object, "status", "phase")
		if !slices.Contains(r.Classes, class) || phase != string(corev1.VolumeBound) {
			continue
		}
		claim := kube.Ref{APIVersion: "v1", Kind: claimKind}
		claim.Namespace, _, _ = unstructured.NestedString(v.Object, "spec", "claimRef", "namespace")
		claim.Name, _, _ = unstructured.NestedString(v.Object, "spec", "claimRef", "name")
		out = append(out, claim)
	}
	return out, nil
}

// claimGoes reports whether a claim is being deleted, or will be with parts that leave.
func claimGoes(ctx context.Context, client *kube.Client, claim kube.Ref, leaving []Record) (bool, error) {
	if slices.ContainsFunc(leaving, func(l Record) bool { return !l.Keep && l.has(claim) }) {
		return true, nil
	}
	its := objectOf(claim)
	if err := client.Get(ctx, its); errors.Is(err, kube.ErrNotFound) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if its.GetDeletionTimestamp() != nil {
		return true, nil
	}
	owner := metav1.GetControllerOf(its) // such as a database
	if owner == nil {
		return false, nil
	}
	ref := kube.Ref{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: claim.Namespace, Name: owner.Name}
	if slices.ContainsFunc(leaving, func(l Record) bool { return l.has(ref) }) {
		return true, nil
	}
	err := client.Get(ctx, objectOf(ref))
	if errors.Is(err, kube.ErrNotFound) {
		return true, nil
	}
	if errors.As(err, new(*kube.NoKindError)) {
		return false, nil
	}
	return false, err
}

func (r Record) has(ref kube.Ref) bool {
	return slices.Contains(r.Before, ref) || slices.Contains(r.After, ref)
}

// inOrderOfRemoval sorts parts so that each comes after those that need it. Otherwise it keeps their order.
func inOrderOfRemoval(all []Record) []Record {
	rest, out := slices.Clone(all), make([]Record, 0, len(all))
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(r Record) bool {
			return !slices.ContainsFunc(rest, func(o Record) bool { return slices.Contains(o.Needs, r.Part) })
		})
		i = max(i, 0) // of a circle, which no file makes, any
		out, rest = append(out, rest[i]), slices.Delete(rest, i, i+1)
	}
	return out
}

// removeObjects removes objects of a part that leaves, the last first. Namespaces and definitions stay with everything in
// them, and claims of a part that outlives its removal, but for those whose volume goes: without it they mount nothing.
func removeObjects(ctx context.Context, client *kube.Client, r Record, refs []kube.Ref) error {
	for _, ref := range slices.Backward(refs) {
		stays := ref.Kind == "Namespace" || ref.Kind == "CustomResourceDefinition"
		if r.Keep && ref.Kind == claimKind {
			claim := objectOf(ref)
			if err := client.Get(ctx, claim); errors.Is(err, kube.ErrNotFound) {
				continue
			} else if err != nil {
				return err
			}
			volume, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
			stays = !r.has(kube.Ref{APIVersion: "v1", Kind: "PersistentVolume", Name: volume})
		}
		if stays {
			continue
		}
		if err := removeObject(ctx, client, ref); err != nil {
			return err
		}
	}
	return nil
}
