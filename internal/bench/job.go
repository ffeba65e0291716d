package bench

import (
	"embed"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/nvidia/check"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

//go:embed *.py
var programs embed.FS

// Kind is a measurement, and the name of its checks.
type Kind string

// The kinds.
const (
	Burn        Kind = "burn"             // every GPU computes for a while
	PyTorch     Kind = "pytorch"          // PyTorch computes on every GPU
	TensorFlow  Kind = "tensorflow"       // so does TensorFlow
	Peers       Kind = "peer-to-peer"     // copies between every two GPUs of a node
	AllReduce   Kind = "all-reduce"       // NCCL sums over the GPUs of a node
	AcrossNodes Kind = "all-reduce-nodes" // NCCL sums over the GPUs of several nodes
)

// Image is PyTorch's own image that measures if no other is named: 3 to 4 GB to pull, CUDA 12.8, for
// cards of compute capability 7.5 and newer.
const Image = "docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime" +
	"@sha256:417bd75df6365104c283ea4c1651fb3530d9eb5a4c2fafa51943cff2a94e6385"

// appName is the value of app.kubernetes.io/name of all objects.
const appName = "gpu-bench"

// runLabel is the label with the run that objects belong to.
const runLabel = "homelab.cps-gpu.github.com/bench"

const (
	scripts = "gpu-bench-programs" // the ConfigMap, the same for every run and node
	folder  = "/bench"
	shared  = 4 << 30 // bytes of /dev/shm at most: NCCL's processes exchange data there
)

// MinGPUs is how many GPUs of a node a measurement needs.
func (k Kind) MinGPUs() int {
	if k == Peers || k == AllReduce {
		return 2
	}
	return 1
}

// MaxTime is how long a measurement takes at most once its image is there; burn is that of [Burn].
func (k Kind) MaxTime(burn time.Duration) time.Duration {
	switch k {
	case Burn:
		return burn + 6*time.Minute
	case AcrossNodes:
		return 20 * time.Minute // the first node waits for the images of the others
	}
	return 10 * time.Minute
}

func (k Kind) program() string {
	return map[Kind]string{Burn: "burn.py", PyTorch: "compute_pytorch.py", TensorFlow: "compute_tensorflow.py", Peers: "peers.py",
		AllReduce: "allreduce.py", AcrossNodes: "allreduce.py"}[k]
}

// Options say where and how to measure.
type Options struct {
	Verify check.VerifyOptions // its Timeout is the time limit of the Job
	Image  string              // with PyTorch or TensorFlow; empty: [Image]
	Burn   time.Duration       // of [Burn]
	// First, World and Rank are for [AcrossNodes]: the number of the node's first GPU among all, how
	// many there are, and the number of the node. The pod of node 0 is the meeting point.
	First, World, Rank int
}

// Name is the name of a Job.
func Name(node string, k Kind, run string) string { return check.VerifyName(string(k)+"-"+node, run) }

// Job returns the Job of a measurement on some GPUs of a node, after the ConfigMap with the
// programs. When it ends, its container's termination message is for [Parse].
func Job(node string, gpus int, k Kind, o Options) []runtime.Object {
	if o.Verify.Image = o.Image; o.Image == "" {
		o.Verify.Image = Image
	}
	j := check.VerifyObjects(node, gpus, o.Verify)[1].(*batchv1.Job)
	j.Name, j.Labels = Name(node, k, o.Verify.RunID), labels(o.Verify.RunID)
	j.Spec.Template.Labels = labels(o.Verify.RunID)
	pod := &j.Spec.Template.Spec
	c := &pod.Containers[0]
	c.Name = "bench"
	c.Command = []string{"python3", folder + "/" + k.program(), strconv.Itoa(gpus)}
	switch k {
	case Burn:
		c.Command = append(c.Command, strconv.Itoa(int(o.Burn.Seconds())))
	case AllReduce:
		c.Command = append(c.Command, "0", strconv.Itoa(gpus), "127.0.0.1")
	case AcrossNodes:
		c.Command = append(c.Command, strconv.Itoa(o.First), strconv.Itoa(o.World), host(0)+"."+service(o.Verify.RunID))
		pod.Hostname, pod.Subdomain = host(o.Rank), service(o.Verify.RunID)
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "programs", MountPath: folder, ReadOnly: true}, {Name: "shm", MountPath: "/dev/shm"}}
	pod.Volumes = []corev1.Volume{
		{Name: "programs", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: scripts}}}},
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(shared, resource.BinarySI)}}},
	}
	objects := []runtime.Object{configMap(j.Namespace), j}
	if k == AcrossNodes {
		objects = append([]runtime.Object{rendezvousService(j.Namespace, o.Verify.RunID)}, objects...)
	}
	return objects
}

func labels(run string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": appName, runLabel: run}
}

func host(rank int) string { return "rank" + strconv.Itoa(rank) }

func service(run string) string { return "gpu-bench-" + run }

// rendezvousService is a headless Service, by which pods find that of node 0 before it is ready.
func rendezvousService(namespace, run string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: service(run), Namespace: namespace, Labels: labels(run)},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: labels(run), PublishNotReadyAddresses: true},
	}
}

func configMap(namespace string) *corev1.ConfigMap {
	data := map[string]string{}
	files, _ := programs.ReadDir(".") // embedded: it cannot fail
	for _, f := range files {
		text, _ := programs.ReadFile(f.Name())
		data[f.Name()] = string(text)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: scripts, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": appName}},
		Data:       data,
	}
}

// Selector finds the Jobs and Services of all verifications, also of those that were killed.
func Selector() string {
	return "app.kubernetes.io/name in (" + strings.Join([]string{appName, "gpu-check", "gpu-verify"}, ",") + ")"
}
