package operators

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

const longhornDriver = "driver.longhorn.io"

func longhornDaemon(c corev1.Container) bool { return hasArgument(c, "daemon") }

// longhorn simulates the manager and the driver deployer: the class of its ConfigMap, the CSI
// driver and its workloads, and the volumes.
func longhorn(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept == nil {
		if err := i.deployLonghorn(ctx); err != nil {
			return 0, err
		}
		i.kept = true
	}
	return i.provision(ctx, driver{name: longhornDriver, volume: longhornVolume})
}

func (i *instance) deployLonghorn(ctx context.Context) error {
	config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, "longhorn-storageclass", metav1.GetOptions{})
	if gone(err) != nil {
		return fmt.Errorf("longhorn: %w", err)
	}
	objs, err := object.Documents([]byte(config.Data["storageclass.yaml"]))
	if err != nil {
		return fmt.Errorf("longhorn-storageclass: %w", err)
	}
	objs = append(objs, object.New("storage.k8s.io/v1", "CSIDriver", "", longhornDriver, map[string]any{
		"spec": map[string]any{"attachRequired": true, "podInfoOnMount": true, "volumeLifecycleModes": []any{"Persistent"}, "fsGroupPolicy": "ReadWriteOnceWithFSType"},
	}))
	for _, name := range []string{"csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter"} {
		objs = append(objs, i.like("Deployment", name, "longhornio/"+name+":v1.13.0", 3))
	}
	objs = append(objs, i.like("DaemonSet", "longhorn-csi-plugin", "longhornio/longhorn-instance-manager:v1.13.0", 0))
	return i.apply(ctx, objs...)
}

// like makes a workload with the scheduling settings of this instance's pod.
func (i *instance) like(kind, name, image string, replicas int) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"tolerations": i.pod.Spec.Tolerations, "nodeSelector": i.pod.Spec.NodeSelector,
				"containers": []any{map[string]any{"name": name, "image": image}},
			},
		},
	}
	if replicas > 0 {
		spec["replicas"] = replicas
	}
	return object.New("apps/v1", kind, i.pod.Namespace, name, map[string]any{"spec": spec})
}

func longhornVolume(_ context.Context, _ *instance, r request) (*corev1.PersistentVolume, error) {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: longhornDriver, VolumeHandle: r.name, FSType: "ext4",
			VolumeAttributes: map[string]string{"numberOfReplicas": r.class.Parameters["numberOfReplicas"], "staleReplicaTimeout": r.class.Parameters["staleReplicaTimeout"]}},
	}}}, nil
}
