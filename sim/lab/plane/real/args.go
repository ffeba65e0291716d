package real

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// idleControllers are the controllers that nothing in the lab needs.
const idleControllers = "-bootstrap-signer-controller,-token-cleaner-controller,-cloud-node-lifecycle-controller," +
	"-node-route-controller,-service-lb-controller,-horizontal-pod-autoscaler-controller," +
	"-persistentvolume-attach-detach-controller,-ttl-controller"

// args returns the command line of a component: on loopback, with certificates of the
// cluster's own CA, without leader election.
func (cp *controlPlane) args(which string) []string {
	pki := cp.ca.path
	ca := pki("ca.crt")
	etcd := "https://127.0.0.1:" + strconv.Itoa(cp.etcd)
	switch which {
	case Etcd:
		return append(cp.restoreArgs(), []string{
			"-data-dir=" + filepath.Join(cp.dir, "etcd"),
			"-listen-client-urls=" + etcd,
			"-listen-peer-urls=https://127.0.0.1:" + strconv.Itoa(cp.peer),
			"-trusted-ca-file=" + ca, "-cert-file=" + pki("etcd.crt"), "-key-file=" + pki("etcd.key"),
		}...)
	case APIServer:
		return slices.Concat(cp.encryptionArgs(), cp.issuer, []string{
			"--etcd-servers=" + etcd, "--etcd-cafile=" + ca,
			"--etcd-certfile=" + pki("etcd.crt"), "--etcd-keyfile=" + pki("etcd.key"),
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(cp.port),
			// Nothing in the cluster can use a loopback endpoint, so there is none.
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + ca, "--anonymous-auth=false",
			"--authorization-mode=Node,RBAC", "--allow-privileged=true",
			"--service-cluster-ip-range=" + plane.List(cp.Services, cp.Second[0]),
			"--service-account-issuer=https://kubernetes.default.svc." + cp.Domain,
			"--service-account-key-file=" + pki("service.key"),
			"--service-account-signing-key-file=" + pki("service.key"),
			"--egress-selector-config-file=" + cp.egressFile(),
			"--kubelet-certificate-authority=" + ca, "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate=" + pki("etcd.crt"), "--kubelet-client-key=" + pki("etcd.key"),
			"--profiling=false", "--event-ttl=1h", "--watch-cache=" + strconv.FormatBool(!cp.reads),
		})
	case ControllerManager:
		return []string{
			"--kubeconfig=" + cp.adminConfig, "--leader-elect=false",
			"--bind-address=127.0.0.1", "--secure-port=0", "--profiling=false",
			"--service-account-private-key-file=" + pki("service.key"), "--root-ca-file=" + ca,
			"--allocate-node-cidrs=true", "--cluster-cidr=" + plane.List(cp.Pods, cp.Second[1]),
			"--service-cluster-ip-range=" + plane.List(cp.Services, cp.Second[0]),
			"--node-monitor-period=2s", "--controllers=*," + idleControllers,
		}
	case Scheduler:
		return []string{
			"--kubeconfig=" + cp.adminConfig, "--leader-elect=false",
			"--bind-address=127.0.0.1", "--secure-port=0", "--profiling=false",
		}
	default:
		panic("plane: no such component: " + which)
	}
}

// newTicker paces every wait in this package.
func newTicker() *time.Ticker { return time.NewTicker(50 * time.Millisecond) }
