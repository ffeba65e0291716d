package component

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/cps-gpu/homelab/sim/lab/plane/real"
)

// endWithParent ends this process when the lab is no longer its parent.
func endWithParent(ctx context.Context, lab string) {
	pid, err := strconv.Atoi(lab)
	if err != nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for os.Getppid() == pid {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// Run runs the component that args[0] names with the rest of args, and returns its exit
// status. The second result is false if args[0] names none. Run ends with the component, or on
// SIGTERM and SIGINT.
func Run(ctx context.Context, args []string) (status int, known bool) {
	if len(args) == 0 {
		return 0, false
	}
	mains := map[string]func() int{
		real.Etcd:              func() int { return runEtcd(ctx) },
		real.APIServer:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		real.ControllerManager: func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		real.Scheduler:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		real.TakeSnapshot:      func() int { return runSnapshot(ctx) },
		real.Kubectl:           func() int { return cli.Run(cmd.NewDefaultKubectlCommand()) },
	}
	main, known := mains[args[0]]
	if !known {
		return 0, false
	}
	os.Args = args // each of them reads its flags from there
	go endWithParent(ctx, os.Getenv(real.ParentEnv))
	return main(), true
}

func failed(component string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", component, err)
	return 1
}
