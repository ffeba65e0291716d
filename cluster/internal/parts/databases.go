package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

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
// nothing would take over from a server that fails, nor start one again.
func checkDatabasesUnused(ctx context.Context, client *kube.Client) error {
	all, err := client.List(ctx, addon.PostgresAPI, addon.PostgresKind, "", "")
	if errors.As(err, new(*kube.NoKindError)) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, u := range all {
		names = append(names, u.GetNamespace()+"/"+u.GetName())
	}
	if len(names) == 0 {
		return nil
	}
	return InUse(fmt.Sprintf("part %s is no longer in the file but stays: without it nothing starts the servers of these databases again: %s: "+
		"add postgres to the file again; to delete their data, run cluster:up with a postgres section without them first; delete others' with kubectl", addon.PostgresName, suggest.FirstOf(names)))
}
