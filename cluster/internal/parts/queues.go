package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// listQueued lists the objects of a kind of Kueue's; none if there is no such kind.
func listQueued(ctx context.Context, client *kube.Client, kind string) ([]unstructured.Unstructured, error) {
	all, err := client.List(ctx, addon.KueueAPI, kind, "", "")
	if errors.As(err, new(*kube.NoKindError)) {
		return nil, nil
	}
	return all, err
}

// checkQueuesUnused refuses to remove Kueue while pods or Jobs are in its queues: those that wait would wait
// forever, and those that run have its finalizer, so that they could no longer be deleted.
func checkQueuesUnused(ctx context.Context, client *kube.Client) error {
	all, err := listQueued(ctx, client, "Workload")
	if err != nil {
		return err
	}
	names := holders(all)
	if len(names) == 0 {
		return nil
	}
	const most = 5
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return InUse(fmt.Sprintf("part %s is no longer in the file but stays: without it what is in its queues could neither start nor be deleted: %s%s: "+
		"let them end or delete them, or add queues to the file again", addon.KueueName, strings.Join(names, ", "), more))
}

// holders are the pods and Jobs that wait or run in queues. Models do not count: in the run in which Kueue leaves, they leave
// the file before it, or start again without a queue.
func holders(workloads []unstructured.Unstructured) (names []string) {
	for _, u := range workloads {
		if owners := u.GetOwnerReferences(); len(owners) > 0 && !finished(&u) && u.GetNamespace() != spec.ModelsNamespace {
			names = append(names, strings.ToLower(owners[0].Kind)+" "+u.GetNamespace()+"/"+owners[0].Name)
		}
	}
	return names
}

func finished(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Finished" && m["status"] == "True" {
			return true
		}
	}
	return false
}

// waitQueuesReleased waits until Kueue has let its objects go. It alone removes their finalizers: if it went
// first, the definitions of its kinds could not be deleted.
func (s *Steps) waitQueuesReleased(ctx context.Context, client *kube.Client, r Record) error {
	if r.Part != addon.KueueName {
		return nil
	}
	rule := converge.WaitRule{What: "waiting until Kueue has let its queues go", Limit: 2 * time.Minute, Poll: run.PollInterval,
		TimeoutText: "Kueue still holds its queues"}
	return run.Until(ctx, s.Spec, rule, func(ctx context.Context) (string, error) {
		for _, kind := range []string{"Workload", "LocalQueue", "ClusterQueue", "ResourceFlavor"} {
			all, err := listQueued(ctx, client, kind)
			if err != nil {
				return "", err
			}
			var objects []runtime.Object
			for i := range all {
				if kind == "Workload" && all[i].GetDeletionTimestamp() == nil {
					objects = append(objects, &all[i]) // of Jobs that have ended
				}
			}
			if err := client.Delete(ctx, objects...); err != nil {
				return "", err
			}
			if len(all) > 0 && (kind == "Workload" || anyOwned(all)) {
				return fmt.Sprintf("%d objects of kind %s are there", len(all), kind), nil
			}
		}
		return "", nil
	})
}

// anyOwned reports whether homelab has made one of the objects. Others' go with their definition.
func anyOwned(all []unstructured.Unstructured) bool {
	return slices.ContainsFunc(all, func(u unstructured.Unstructured) bool {
		return u.GetLabels()["app.kubernetes.io/managed-by"] == "homelab"
	})
}
