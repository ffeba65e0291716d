package real

// The names of the components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	TakeSnapshot      = "snapshot" // of a running etcd, to standard output
)

// ParentEnv is the environment variable with the process id of the lab; a component ends when
// that process does. Linux kills the children of a crashed lab; other systems do not.
const ParentEnv = "HOMELAB_LAB_PID"
