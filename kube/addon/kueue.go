package addon

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/chart"
)

// Names of Kueue's (kubernetes-sigs/kueue, v0.19.2: pkg/controller/constants, apis/kueue/v1beta2).
const (
	KueueName      = "kueue"
	kueueNamespace = "kueue-system"
	KueueAPI       = "kueue.x-k8s.io/v1beta2"
	QueueLabel     = "kueue.x-k8s.io/queue-name" // names the LocalQueue in which a pod or Job waits
	DefaultQueue   = "default"                   // the LocalQueue of pods and Jobs that name none
)

// cohort joins the queues: what one does not use, others borrow. It is also the one flavor.
const cohort = "homelab"

// Queue is a group's part of the cluster's GPUs.
type Queue struct {
	Name       string
	Namespaces []string       // all pods and Jobs in these wait in the queue
	Labelled   []string       // in these only those with QueueLabel and the queue's name
	Quota      map[string]int // by resource; those that others have are 0 here
	Borrow     bool           // also what other queues leave unused
	Reclaim    bool           // takes its own part back by ending pods of borrowers
}

// KueueOptions say how groups share GPUs.
type KueueOptions struct {
	Common
	Resources []string // that pods request and the nodes offer, e.g. nvidia.com/gpu
	Queues    []Queue
}

// Kueue makes pods wait until it is the turn of their queue: they keep the default scheduler, which
// sees them from then on.
func Kueue(o KueueOptions) (chart.Part, error) {
	if err := o.check(); err != nil {
		return chart.Part{}, err
	}
	config, err := yaml.Marshal(o.config())
	if err != nil {
		return chart.Part{}, fmt.Errorf("%s: %w", KueueName, err)
	}
	replicas := o.few(2)
	v := values{
		// Without a webhook that answers, no pod starts in the namespaces of queues.
		"controllerManager": values{"replicas": replicas},
		"managerConfig":     values{"controllerManagerConfigYaml": string(config)},
	}
	o.tolerate(v, []string{"controllerManager"})
	r, err := o.release(KueueName, kueueNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	p := chart.Part{Name: KueueName, Release: r}
	p.After = append(p.After, object(KueueAPI, "ResourceFlavor", meta(KueueName, "", cohort), nil))
	for _, q := range o.Queues {
		p.After = append(p.After, o.clusterQueue(q))
		for _, n := range slices.Concat(q.Namespaces, q.Labelled) {
			p.After = append(p.After, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: n}})
		}
		p.After = append(p.After, localQueues(q)...)
	}
	return p, nil
}

func (o KueueOptions) check() error {
	var errs []error
	if len(o.Resources) == 0 || len(o.Queues) == 0 {
		errs = append(errs, errors.New("kueue: resources and queues must be set"))
	}
	owner := map[string]string{}
	for _, q := range o.Queues {
		if len(q.Namespaces)+len(q.Labelled) == 0 {
			errs = append(errs, fmt.Errorf("kueue: queue %q has no namespaces", q.Name))
		}
		for _, n := range slices.Concat(q.Namespaces, q.Labelled) {
			if other, taken := owner[n]; taken {
				errs = append(errs, fmt.Errorf("kueue: namespace %s is in the queues %s and %s", n, other, q.Name))
			}
			if n == metav1.NamespaceSystem || n == kueueNamespace { // which Kueue refuses (pkg/config/validation.go)
				errs = append(errs, fmt.Errorf("kueue: namespace %s cannot wait in a queue: Kubernetes itself, or Kueue, runs in it", n))
			}
			owner[n] = q.Name
		}
		for resource, n := range q.Quota {
			if n < 0 || !slices.Contains(o.Resources, resource) {
				errs = append(errs, fmt.Errorf("kueue: queue %s: %d %s: the nodes offer %s", q.Name, n, resource, strings.Join(o.Resources, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// all are the namespaces of queues.
func (o KueueOptions) all() []any {
	var out []any
	for _, q := range o.Queues {
		for _, n := range slices.Concat(q.Namespaces, q.Labelled) {
			out = append(out, n)
		}
	}
	return out
}

// config is the manager's own configuration. The chart replaces it as a whole, so it repeats what the
// chart says of addresses and leader election (charts/kueue/values.yaml, v0.19.2).
func (o KueueOptions) config() values {
	return values{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
		"health":         values{"healthProbeBindAddress": ":8081"},
		"metrics":        values{"bindAddress": ":8443"},
		"webhook":        values{"port": 9443},
		"leaderElection": values{"leaderElect": true, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
		// A strong exemption for pods: elsewhere Kueue never touches one, whatever its labels, and the
		// chart's webhooks are not asked.
		"managedJobsNamespaceSelector": in(o.all()),
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

func in(namespaces []any) values {
	return values{"matchExpressions": []any{values{"key": corev1.LabelMetadataName, "operator": "In", "values": namespaces}}}
}

func (o KueueOptions) clusterQueue(q Queue) runtime.Object {
	var covered, quotas []any
	for _, resource := range o.Resources {
		quota := values{"name": resource, "nominalQuota": strconv.Itoa(q.Quota[resource])}
		if !q.Borrow {
			quota["borrowingLimit"] = "0"
		}
		covered, quotas = append(covered, resource), append(quotas, quota)
	}
	// Explicit, because it decides whether a running pod ends for one that waits.
	preemption := values{"withinClusterQueue": "Never", "reclaimWithinCohort": "Never", "borrowWithinCohort": values{"policy": "Never"}}
	if q.Reclaim {
		preemption["reclaimWithinCohort"] = "Any"
	}
	var namespaces []any
	for _, n := range slices.Concat(q.Namespaces, q.Labelled) {
		namespaces = append(namespaces, n)
	}
	return object(KueueAPI, "ClusterQueue", meta(KueueName, "", q.Name), values{
		"cohortName":        cohort,
		"queueingStrategy":  "BestEffortFIFO",
		"namespaceSelector": in(namespaces),
		"admissionScope":    values{"admissionMode": "UsageBasedAdmissionFairSharing"},
		"preemption":        preemption,
		"resourceGroups": []any{values{
			"coveredResources": covered,
			"flavors":          []any{values{"name": cohort, "resources": quotas}},
		}},
	})
}

// localQueues are the doors to a queue. Pods and Jobs of a namespace with one called default need no
// label.
func localQueues(q Queue) []runtime.Object {
	var out []runtime.Object
	add := func(namespace, name string) {
		out = append(out, object(KueueAPI, "LocalQueue", meta(KueueName, namespace, name), values{"clusterQueue": q.Name}))
	}
	for _, n := range q.Namespaces {
		add(n, DefaultQueue)
	}
	for _, n := range q.Labelled {
		add(n, q.Name)
	}
	return out
}
