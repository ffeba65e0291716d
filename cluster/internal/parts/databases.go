package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// databasePath begins the path of a database in a difference.
const databasePath = "cluster/"

// costOfDatabase is what a database holds that is no longer in the file: CloudNativePG deletes its claims
// with it.
func (s *Steps) costOfDatabase(ctx context.Context, name string) converge.Cost {
	cost := converge.Cost{Machine: name, Object: "database", Kind: converge.CostDestroy, Reason: "a database that is no longer in the file"}
	w, err := s.Work(ctx)
	if err != nil || w == nil {
		cost.Holds = UnknownLoss(cmp.Or(err, errors.New("its API does not answer")))
		return cost
	}
	namespace, database, _ := strings.Cut(name, "/")
	cost.Holds = w.ClaimsLabelled(namespace, addon.PostgresLabel, database)
	return cost
}

// checkDatabasesUnused refuses to remove CloudNativePG while there are databases, no matter who created them:
// nothing would take over from a server that fails, nor start one again. Nor is its plugin removed while some write
// their changes by it: they would keep them all, until their volumes are full.
func (s *Steps) checkDatabasesUnused(ctx context.Context, client *kube.Client, r Record, leaving []Record) error {
	all, err := client.List(ctx, addon.PostgresAPI, addon.PostgresKind, "", "")
	if errors.As(err, new(*kube.NoKindError)) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, u := range all {
		its := kube.Ref{APIVersion: addon.PostgresAPI, Kind: addon.PostgresKind, Namespace: u.GetNamespace(), Name: u.GetName()}
		if slices.ContainsFunc(leaving, func(l Record) bool { return l.Part != r.Part && slices.Contains(l.After, its) }) {
			continue
		}
		changes := s.Spec.Platform.Postgres != nil && anyOwned([]unstructured.Unstructured{u}) // before the plugin goes
		if r.Part == addon.PostgresName || usesPlugin(u) && !changes {
			names = append(names, u.GetNamespace()+"/"+u.GetName())
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case r.Part == addon.PostgresBackupName:
		return InUse(fmt.Sprintf("part %s is no longer in the file but stays: by it these databases write their changes into a bucket: %s: "+
			"add postgres.backup to the file again, or remove the plugin %s from them first", r.Part, suggest.FirstOf(names), addon.PostgresPlugin))
	}
	return InUse(fmt.Sprintf("part %s is no longer in the file but stays: without it nothing starts the servers of these databases again: %s: "+
		"add postgres to the file again; to delete their data, run cluster:up with a postgres section without them first; delete others' with kubectl", addon.PostgresName, suggest.FirstOf(names)))
}

func usesPlugin(u unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "plugins")
	return slices.ContainsFunc(list, func(p any) bool {
		m, _ := p.(map[string]any)
		return m["name"] == addon.PostgresPlugin && m["enabled"] != false
	})
}
