// Package guest is an Ubuntu 24.04 machine that fits in a test.
//
// It is what lives inside a virtual machine of package pvesim: a disk with files
// on it, a boot that reads the seed ISO as cloud-init does, programs that can be
// run over SSH and the QEMU guest agent, units, kernel modules, PCI devices, and
// K3s. It judges what it is given by the rules of the real programs, which were
// written from their documentation, independent of the program that renders the
// configuration: a bad seed means that the login fails, a wrong token that K3s
// logs what K3s logs, and a GPU is usable only when its driver is loaded and
// NVIDIA's runtime was installed before K3s started.
//
// # What is simulated
//
// A [Disk] is a tree of files with owners, modes and links, and dpkg's database.
// [NewBase] is the image as Canonical publishes it; [Disk.Clone] shares what
// neither side changes, so that a thousand clones of a template cost little. A
// [Machine] is switched on by [Machine.Boot] and comes up in the background,
// about 12 s later; durations are those of life, divided by Config.Speed.
//
// cloud-init reads a NoCloud ISO: instance-id, network-config version 2, users,
// keys, files, packages, apt sources, file systems, mounts, commands. Errors and
// warnings are in "cloud-init status" with its exit statuses 1 and 2.
//
// Commands go through the interpreter mvdan.cc/sh. A program is a small Go
// function behind a file that stands for it: a name without such a file is
// command not found, exit status 127, and a package brings its programs. What a
// function does not know it refuses in words ("… is not simulated"); it never
// pretends. Users other than root are held to modes, and to sudoers.
//
// apt knows the packages that a cluster needs, NVIDIA's drivers with their naming
// scheme among them, from the archives that sources.list and its keys allow and
// that "apt-get update" has fetched. The kernel that boots is the newest
// installed one, and NVIDIA's module loads when its package is there for that
// very kernel and its branch and flavour suit the chip; if not, the kernel's log
// says why. nvidia-smi fails as the real one does, also when library and module
// are of different versions.
//
// systemd starts what is enabled, restarts what says so, and keeps journals. K3s
// reads its configuration files, forms a cluster (a [Plane], created by an
// implementation of [Kubernetes]) or joins one through the network, by token; servers
// have a quorum, in which a dead one counts until its Node is deleted; kube-vip's
// address moves to another server 25 s after its holder has died. A control plane
// ends with the last disk that is a server's ([Network.Forget]). Containers run by Node.Run in a file system of their own, with
// the GPUs that they were given.
//
// A [Network] carries all this: [Network.Dial] reaches port 22 of a guest (an SSH
// server by package remotetest) and port 6443 of a live server or the VIP, in
// process. Everything works under testing/synctest.
//
// # What is not
//
// There are no processes: a signal ends nothing. A pipe
// between two programs is one of the operating system, so that a program which
// waits for time inside a pipeline refuses to under synctest, rather than stop
// the clock forever. Device contents, partitions, quotas and free space are not
// there, and the journal of one boot ends with it. K3s' supervisor port serves
// the API only, not /ping and /cacerts; a server that has lost its quorum refuses
// connections but does not exit; all servers share one etcd. After a power cut,
// connections are reset rather than left hanging. Nothing checks signatures of
// packages, only that keys are there.
//
// # Where things are
//
// This package is the outside of a guest: what a hypervisor, a test and the guest agent
// see of it. What it is made of has rooms of its own below internal. The first are of
// the world around a machine: network, internet, archive (of packages), image (of disks)
// and plane. Then disk has its files, and machine the computer, its running system and
// its processes. On these stand systemd, storage, netplan, iptables, hardware, gpu and
// shell, and on them apt, cloud, sshd, k3s and programs; boot and pvehost put them into
// the order in which a guest or a host starts. The table of all programs is programOf in
// machine.go; each room that has some begins with its own, Program.
package guest
