package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// Names of Kueue's (kubernetes-sigs/kueue, v0.19.2: pkg/controller/constants, apis/kueue/v1beta2).
const (
	KueueName      = "kueue"
	kueueNamespace = "kueue-system"
	KueueAPI       = "kueue.x-k8s.io/v1beta2"
	QueueLabel     = "kueue.x-k8s.io/queue-name" // names the LocalQueue in which a pod or Job waits
)

// cohort joins the queues: what one does not use, others borrow. It is also the one flavor.
const cohort = "homelab"

// Kueue makes pods wait until it is the turn of their queue: they keep the default scheduler, which
// sees them from then on.
type Kueue struct{ Queues []spec.Queue }

func (k Kueue) Info() Info {
	return Info{
		Name: KueueName, Section: "queues", On: len(k.Queues) > 0,
		Namespace: kueueNamespace,
		// It holds queues, and pods and Jobs in them, by a finalizer (apis/kueue/v1beta2, ResourceInUseFinalizerName).
		// dependsOn orders what Fleet and Flux install, not what they remove (fleet v0.16.1
		// internal/cmd/agent/controller/bundledeployment_controller.go: a release goes when its BundleDeployment is gone,
		// several at a time), nor what Argo CD removes with Applications that have its finalizer.
		NeverInFleet: "without it nobody could delete its queues and what runs in them, and a tool that removes both does so at once",
		Chart: chart.Pin{
			Chart: "kueue", Repo: "oci://registry.k8s.io/kueue/charts",
			Version: "0.19.2", App: "v0.19.2", Kubernetes: ">=1.29.0-0", Compared: "2026-08-20",
			Source: "pinned and read: tag v0.19.2 of 2026-08-20, charts/kueue; its README names Kubernetes and the registry",
		},
	}
}

func (k Kueue) Make(s *Site) (Recipe, error) {
	resources := slices.Sorted(maps.Keys(s.Offered))
	var queues []queue
	for _, q := range k.Queues {
		out := queue{Queue: q, quota: offer.Quota(q)}
		maps.DeleteFunc(out.quota, func(resource string, n int) bool { return n == 0 && !slices.Contains(resources, resource) })
		for _, n := range q.Namespaces {
			if n == s.HubNamespace || n == spec.ModelsNamespace { // pods of the platform are there too
				out.labelled = append(out.labelled, n)
			} else {
				out.open = append(out.open, n)
			}
		}
		queues = append(queues, out)
	}
	if err := checkQueues(queues, resources); err != nil {
		return Recipe{}, err
	}
	config, err := yaml.Marshal(config(queues))
	if err != nil {
		return Recipe{}, fmt.Errorf("%s: %w", KueueName, err)
	}
	replicas := s.replicas(2)
	v := values{
		// Without a webhook that answers, no pod starts in the namespaces of queues.
		"controllerManager": values{"replicas": replicas},
		"managerConfig":     values{"controllerManagerConfigYaml": string(config)},
	}
	s.tolerate(v, []string{"controllerManager"})
	r := s.release(k.Info(), v)
	p := Recipe{Part: chart.Part{Name: KueueName, Release: r}}
	p.After = append(p.After, object(KueueAPI, "ResourceFlavor", meta(KueueName, "", cohort), nil))
	for _, q := range queues {
		p.After = append(p.After, q.cluster(resources))
		for _, n := range slices.Concat(q.open, q.labelled) {
			var labels map[string]string
			if n == spec.ModelsNamespace { // as its own part has it
				labels = ownLabels("models")
			}
			p.After = append(p.After, namespaceObject(n, labels))
		}
		p.After = append(p.After, q.local()...)
		p.Verify = append(p.Verify, verify.Check{Name: "queue " + q.Name + " lets a pod start", Try: q.admits})
	}
	return p, nil
}

// queue is a queue with its namespaces by how pods get into it.
type queue struct {
	spec.Queue
	open     []string       // all pods and Jobs in these wait in the queue
	labelled []string       // in these only those with QueueLabel and the queue's name
	quota    map[string]int // by resource; those that others have are 0 here
}

func checkQueues(queues []queue, resources []string) error {
	var errs []error
	if len(resources) == 0 || len(queues) == 0 {
		errs = append(errs, errors.New("kueue: resources and queues must be set"))
	}
	owner := map[string]string{}
	for _, q := range queues {
		if len(q.Namespaces) == 0 {
			errs = append(errs, fmt.Errorf("kueue: queue %q has no namespaces", q.Name))
		}
		for _, n := range q.Namespaces {
			if other, taken := owner[n]; taken {
				errs = append(errs, fmt.Errorf("kueue: namespace %s is in the queues %s and %s", n, other, q.Name))
			}
			if n == metav1.NamespaceSystem || n == kueueNamespace { // which Kueue refuses (pkg/config/validation.go)
				errs = append(errs, fmt.Errorf("kueue: namespace %s cannot wait in a queue: Kubernetes itself, or Kueue, runs in it", n))
			}
			owner[n] = q.Name
		}
		for resource, n := range q.quota {
			if n < 0 || !slices.Contains(resources, resource) {
				errs = append(errs, fmt.Errorf("kueue: queue %s: %d %s: the nodes offer %s", q.Name, n, resource, strings.Join(resources, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// namespaces are those of queues.
func namespaces(queues []queue) []any {
	var out []any
	for _, q := range queues {
		for _, n := range slices.Concat(q.open, q.labelled) {
			out = append(out, n)
		}
	}
	return out
}

// config is the manager's own configuration. The chart replaces it as a whole, so it repeats what the
// chart says of addresses and leader election (charts/kueue/values.yaml, v0.19.2).
func config(queues []queue) values {
	return values{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
		"health":         values{"healthProbeBindAddress": ":8081"},
		"metrics":        values{"bindAddress": ":8443"},
		"webhook":        values{"port": 9443},
		"leaderElection": values{"leaderElect": true, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
		// A strong exemption for pods: elsewhere Kueue never touches one, whatever its labels, and the
		// chart's webhooks are not asked.
		"managedJobsNamespaceSelector": namespaceIn(namespaces(queues)),
		"integrations":                 values{"frameworks": []any{"batch/job", "pod"}},
		// Only GPUs are counted. Otherwise a pod that requests CPUs, of which a queue says nothing, waits
		// forever.
		"resources": values{"excludeResourcePrefixes": []any{"cpu", "memory", "ephemeral-storage", "hugepages-"}},
		// Between queues: who borrows least is next. The strategies count only with reclaim.
		"fairSharing": values{"preemptionStrategies": []any{"LessThanOrEqualToFinalShare", "LessThanInitialShare"}},
		// Within a queue: the namespace that used least is next; use of a day ago counts half.
		"admissionFairSharing": values{"usageHalfLifeTime": "24h", "usageSamplingInterval": "1m"},
		// A pod that holds GPUs and does not get ready, such as one without its image, gives them back.
		"waitForPodsReady": values{"timeout": "1h", "recoveryTimeout": "0s"},
	}
}

func namespaceIn(namespaces []any) values {
	return values{"matchExpressions": []any{values{"key": corev1.LabelMetadataName, "operator": "In", "values": namespaces}}}
}

func (q queue) cluster(resources []string) runtime.Object {
	var covered, quotas []any
	for _, resource := range resources {
		quota := values{"name": resource, "nominalQuota": strconv.Itoa(q.quota[resource])}
		if !q.Borrow.IsOn() {
			quota["borrowingLimit"] = "0"
		}
		covered, quotas = append(covered, resource), append(quotas, quota)
	}
	// Explicit, because it decides whether a running pod ends for one that waits.
	preemption := values{"withinClusterQueue": "Never", "reclaimWithinCohort": "Never", "borrowWithinCohort": values{"policy": "Never"}}
	if q.Reclaim {
		preemption["reclaimWithinCohort"] = "Any"
	}
	return object(KueueAPI, "ClusterQueue", meta(KueueName, "", q.Name), values{
		"cohortName":        cohort,
		"queueingStrategy":  "BestEffortFIFO",
		"namespaceSelector": namespaceIn(namespaces([]queue{q})),
		"admissionScope":    values{"admissionMode": "UsageBasedAdmissionFairSharing"},
		"preemption":        preemption,
		"resourceGroups": []any{values{
			"coveredResources": covered,
			"flavors":          []any{values{"name": cohort, "resources": quotas}},
		}},
	})
}

// admits has a pod that asks for no GPUs wait in the queue, in the first of its namespaces.
func (q queue) admits(ctx context.Context, c verify.Cluster) (string, error) {
	if why, ok, err := c.Kube.Ready(ctx, object(KueueAPI, "ClusterQueue", meta(KueueName, "", q.Name), nil)); err != nil || !ok {
		return "", cmp.Or(err, errors.New(why))
	}
	door := q.local()[0].(*unstructured.Unstructured)
	pod := c.Pod(door.GetNamespace(), "queue", "true")
	pod.Labels[QueueLabel] = door.GetName()
	err := c.WithObject(ctx, pod, func(ctx context.Context) error {
		_, err := c.Ends(ctx, pod)
		return err
	})
	return "in namespace " + pod.Namespace, err
}

// local are the doors to a queue. Pods and Jobs of a namespace with one called default need no
// label.
func (q queue) local() []runtime.Object {
	var out []runtime.Object
	add := func(namespace, name string) {
		out = append(out, object(KueueAPI, "LocalQueue", meta(KueueName, namespace, name), values{"clusterQueue": q.Name}))
	}
	for _, n := range q.open {
		add(n, spec.DefaultQueue)
	}
	for _, n := range q.labelled {
		add(n, q.Name)
	}
	return out
}
