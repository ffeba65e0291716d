package targets

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Verb is one command: `cluster:up` as a Mage target, `homelab cluster up` in a shell, [ClusterUp] in Go.
// Mage's targets and the command line are made from the table that [Verbs] returns.
type Verb struct {
	Name  string // as a Mage target
	Group string // the heading of its help
	Doc   string // what it does: "creates or changes …"
	Flags []Flag

	words    int    // arguments between its name and its flags; ours have none
	function string // of this package
	run      func(ctx context.Context, values map[string]any) error
}

// summary is the beginning of Doc: what the verb does, in a line of a list.
func (v Verb) summary() string {
	short := v.Doc
	for _, end := range []string{"; ", ": ", ". "} {
		short, _, _ = strings.Cut(short, end)
	}
	return strings.TrimSuffix(short, ".")
}

// Flag is a flag of a verb: a field of its options.
type Flag struct {
	Name  string // in lower case
	Value string // what it takes, such as FILE; of a bool nothing
	Help  string
	Zero  any // a string, int, bool or time.Duration

	field string
}

// verb is a line of the table. Its function is a function of this package, and takes a struct of options.
func verb[O any](name, function string, run func(context.Context, O) error, doc string) Verb {
	v := Verb{Name: name, Doc: doc, function: function, Flags: flagsOf(reflect.TypeFor[O]())}
	v.run = func(ctx context.Context, values map[string]any) error {
		var o O
		at := reflect.ValueOf(&o).Elem()
		for _, f := range v.Flags {
			if value, ok := values[f.Name]; ok {
				at.FieldByName(f.field).Set(reflect.ValueOf(value))
			}
		}
		return run(ctx, o)
	}
	return v
}

// call runs a command with the values of its flags, pointers in the order of the fields; nil: not given.
func call[O any](ctx context.Context, run func(context.Context, O) error, values ...any) error {
	var o O
	at := reflect.ValueOf(&o).Elem()
	for i, f := range flagsOf(at.Type()) {
		if value := reflect.ValueOf(values[i]); !value.IsNil() {
			at.FieldByName(f.field).Set(value.Elem())
		}
	}
	return run(ctx, o)
}

// flagsOf are the fields with help, also those of embedded structs.
func flagsOf(t reflect.Type) []Flag {
	var out []Flag
	for _, f := range reflect.VisibleFields(t) {
		help, ok := f.Tag.Lookup("help")
		if !ok {
			continue
		}
		flag := flagOf(f.Name, help, f.Type.String())
		flag.Zero, flag.field = reflect.Zero(f.Type).Interface(), f.Name
		out = append(out, flag)
	}
	return out
}

// flagOf is a flag of this type. Its help may begin with the form of its value, in one word: "FILE: the cluster's file".
func flagOf(name, help, kind string) Flag {
	f := Flag{Name: strings.ToLower(name), Help: help, Zero: ""}
	value, rest, ok := strings.Cut(help, ": ")
	switch {
	case kind == "bool":
		f.Zero = false
	case ok && !strings.Contains(value, " "):
		f.Value, f.Help = value, rest
	default:
		f.Value = "<" + kind + ">"
	}
	return f
}

// mageType is the type of a parameter with which Mage reads a flag.
func (f Flag) mageType() string {
	if _, ok := f.Zero.(time.Duration); ok {
		return "time.Duration"
	}
	return reflect.TypeOf(f.Zero).String()
}

// Verbs are all commands, in the order of the help.
func Verbs() []Verb {
	return concatGroups(
		group("A cluster",
			verb("cluster:init", "ClusterInit", ClusterInit, "writes a first cluster.yaml. It looks at Proxmox VE hosts and asks; with -yes or from a script it asks nothing."),
			verb("cluster:import", "ClusterImport", ClusterImport, "writes a cluster.yaml from files of other tools; of OpenTofu, Terraform, Ansible or a template. It lists what it leaves out, and copies no secret."),
			verb("cluster:validate", "ClusterValidate", ClusterValidate, "checks cluster.yaml and lists everything that is wrong."),
			verb("cluster:plan", "ClusterPlan", ClusterPlan, "shows what cluster:up would do; exit code 0 for nothing, 2 for changes."),
			verb("cluster:up", "ClusterUp", ClusterUp, "creates or changes the cluster as cluster.yaml says; run it again at any time. It asks before it restarts or destroys a machine, or adds your login to machines that others may have made."),
			verb("cluster:status", "ClusterStatus", ClusterStatus, "shows every node and part, and what is wrong."),
			verb("cluster:watch", "ClusterWatch", ClusterWatch, "serves a live page about the cluster, until Ctrl-C. The page is on this machine alone."),
			verb("cluster:doctor", "ClusterDoctor", ClusterDoctor, "finds the cause of a failure. It reads hosts, VMs, machines from inside, K3s, the kernel's log and pods, and changes nothing; exit code 2 if something does not work."),
			verb("cluster:conformance", "ClusterConformance", ClusterConformance, "compares the cluster with the CNCF's AI conformance. It reads objects and machines, with evidence for each requirement; with -run it also starts pods; exit code 2 if one that binds is not shown."),
			verb("cluster:support", "ClusterSupport", ClusterSupport, "packs what a helper needs into one file. It has no secrets: doctor, plan, logs of all machines, pods and events."),
			verb("cluster:kubeconfig", "ClusterKubeconfig", ClusterKubeconfig, "brings the kubeconfig up to date and prints its path."),
			verb("cluster:down", "ClusterDown", ClusterDown, "destroys what cluster:up made; not the NFS server, which -also=NAME destroys too."),
		),
		group("Nodes and their GPUs",
			verb("gpu:list", "GPUList", GPUList, "shows every GPU of every host: model, group, mapping, owner; over SSH also NUMA node and driver."),
			verb("gpu:verify", "GPUVerify", GPUVerify, "computes on every GPU of every node. It runs a CUDA job on each, judges what nvidia-smi reports, and shows the results."),
			verb("node:drain", "NodeDrain", NodeDrain, "cordons a node and evicts its pods."),
			verb("node:uncordon", "NodeUncordon", NodeUncordon, "lets pods onto a node again."),
			verb("node:cycle", "NodeCycle", NodeCycle, "switches a node's VM off and on. It drains the node first; off and on resets its GPUs, a reboot does not."),
			verb("node:upgrade", "NodeUpgrade", NodeUpgrade, "upgrades the packages of nodes within their release. Kernel and driver move together; one node after the other is drained, and restarts if its packages ask for that."),
			verb("node:replace", "NodeReplace", NodeReplace, "recreates a node's machine: it drains the node, deletes it from Kubernetes and etcd, destroys its VM with all disks, clones a new one and lets it join."),
			verb("node:remove", "NodeRemove", NodeRemove, "takes an external machine out of the cluster. It drains the node, removes K3s and deletes the node; the machine keeps running."),
			verb("template:list", "TemplateList", TemplateList, "shows the templates: their contents, age, and the machines linked to them."),
			verb("template:prune", "TemplatePrune", TemplatePrune, "removes unused templates, ISOs and images from hosts."),
		),
		group("Kubernetes, and its backups",
			verb("k3s:upgrade", "K3sUpgrade", K3sUpgrade, "brings K3s to another version. It writes the version into cluster.yaml, after showing the line, and then does what cluster:up does."),
			verb("cluster:backup", "ClusterBackup", ClusterBackup, "writes an encrypted backup of etcd; one file with all that a restore needs."),
			verb("cluster:restore", "ClusterRestore", ClusterRestore, "brings Kubernetes back to a backup. Or to a snapshot that a server has; pods keep running, and what was created since is lost."),
			verb("cluster:certs", "ClusterCerts", ClusterCerts, "shows when K3s' certificates end. -rotate renews them, on one node after the other."),
			verb("backup:verify", "BackupVerify", BackupVerify, "proves that a backup is whole. It shows that K3s can open it and what is in it, and needs no cluster."),
		),
		group("The platform",
			verb("platform:passwords", "PlatformPasswords", PlatformPasswords, "shows generated first passwords; of the hub, Rancher, Grafana and databases."),
			verb("platform:verify", "PlatformVerify", PlatformVerify, "tries each part as people use it. It finds a line of a log again, delivers a test alert, opens pages, writes volumes, and removes what it made."),
			verb("hub:open", "HubOpen", HubOpen, "prints the hub's address; if this machine cannot reach it, it forwards a local port until Ctrl-C."),
			verb("hub:profiles", "HubProfiles", HubProfiles, "shows on which nodes each profile fits; and how many servers at once, from the file alone."),
			verb("hub:verify", "HubVerify", HubVerify, "computes in a server of each profile. It starts them, on GPUs too, and removes them."),
			verb("model:list", "ModelList", ModelList, "shows the models that the cluster serves; engine, replicas, node, address, and what one lacks that is not ready."),
			verb("model:verify", "ModelVerify", ModelVerify, "asks each model a question; time to the first token, tokens per second, and how both differ from earlier runs."),
			verb("model:use", "ModelUse", ModelUse, "shows what each key used of each model; requests and tokens, of the last -days."),
			verb("images:list", "ImagesList", ImagesList, "shows which container images the nodes pull; for which part, from the file and its charts alone."),
			verb("images:mirror", "ImagesMirror", ImagesMirror, "copies what the file needs to its mirror: images to the registry, K3s and charts into the folder; or all into a folder, and from there. What is there already is not copied again."),
			verb("fleet:lint", "FleetLint", FleetLint, "finds mistakes in a Fleet repository. It needs no cluster; exit code 1 for errors."),
			verb("fleet:render", "FleetRender", FleetRender, "writes the folder of what is deployed through Git. It needs the file alone; -live also asks the cluster. Other files stay."),
			verb("fleet:push", "FleetPush", FleetPush, "commits that folder to the Git repository of the file. It never overwrites changes of others, and asks before it removes files whose objects Fleet would then delete."),
			verb("fleet:status", "FleetStatus", FleetStatus, "shows how far Fleet has deployed the last commit; problems first; with -timeout it waits until everything is deployed; exit code 2 if something is missing."),
		),
		group("Proxmox VE hosts",
			verb("host:check", "HostCheck", HostCheck, "checks whether hosts can run what the file describes. It changes nothing; exit code 0, 1 for warnings, 2 for errors."),
			verb("host:prep", "HostPrep", HostPrep, "prepares hosts over SSH, as root: it shows every change, asks, and makes it. Without a file, -ssh names the host."),
			verb("host:role", "HostRole", HostRole, "prints the privileges that the token needs; as commands for root, and with the reasons; it changes nothing."),
			verb("host:trial", "HostTrial", HostTrial, "tests hosts with a cluster of its own: up, changes, down; it plans after each step and writes a record."),
		),
		group("The lab",
			verb("lab:start", "LabStart", LabStart, "starts the lab in the background; it builds it first if necessary."),
			verb("lab:status", "LabStatus", LabStatus, "shows whether the lab runs, where, and its memory."),
			verb("lab:stop", "LabStop", LabStop, "ends the lab and everything in it."),
		),
	)
}

// group gives verbs their heading.
func group(title string, verbs ...Verb) []Verb {
	for i := range verbs {
		verbs[i].Group = title
	}
	return verbs
}

func concatGroups(groups ...[]Verb) []Verb { return slices.Concat(groups...) }
