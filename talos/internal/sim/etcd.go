package sim

import (
	"context"
	"maps"
	"slices"

	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// member is one of an etcd. It stays when its machine goes.
type member struct{ cluster, name string }

// enter makes a server a member of the etcd of its cluster. The world is locked.
func (m *Machine) enter() {
	m.etcd, m.member = true, uint64(len(m.world.members)+1)
	for m.world.members[m.member] != (member{}) {
		m.member++
	}
	m.world.members[m.member] = member{m.config.Cluster().ID(), m.name()}
}

// join makes a server a member, if its cluster has an etcd that decides. One that was removed does not come back.
func (m *Machine) join() {
	if m.isServer("etcd") != nil || m.etcd || !m.decides() {
		return
	}
	m.enter()
}

// isMember reports whether the machine is a member that runs.
func (m *Machine) isMember() bool { return m.etcd && m.world.members[m.member] != (member{}) }

// decides reports whether more than half of the members of the machine's cluster run.
func (m *Machine) decides() bool {
	all, run := m.members()
	return all > 0 && run > all/2
}

// members are how many the etcd of the machine's cluster has, and how many of them run.
func (m *Machine) members() (all, run int) {
	id := m.config.Cluster().ID()
	for _, of := range m.world.members {
		if of.cluster == id {
			all++
		}
	}
	for _, o := range m.world.machines {
		if o.config != nil && o.config.Cluster().ID() == id && o.isMember() {
			run++
		}
	}
	return all, run
}

// forgetAll removes all members of the machine's cluster: another etcd begins.
func (m *Machine) forgetAll() {
	id := m.config.Cluster().ID()
	maps.DeleteFunc(m.world.members, func(_ uint64, of member) bool { return of.cluster == id })
}

func (m *Machine) etcdAnswers() error {
	if err := m.isServer("member list"); err != nil {
		return err
	}
	if !m.isMember() || !m.decides() {
		return status.Error(codes.Unavailable, "etcdserver: no leader")
	}
	return nil
}

// EtcdMemberList lists the members of the machine's etcd.
func (m *Machine) EtcdMemberList(context.Context, *api.EtcdMemberListRequest) (*api.EtcdMemberListResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.world.settle() // servers join without being asked
	if err := m.etcdAnswers(); err != nil {
		return nil, err
	}
	out := &api.EtcdMembers{}
	for _, id := range slices.Sorted(maps.Keys(m.world.members)) {
		if of := m.world.members[id]; of.cluster == m.config.Cluster().ID() {
			out.Members = append(out.Members, &api.EtcdMember{Id: id, Hostname: of.name})
		}
	}
	return &api.EtcdMemberListResponse{Messages: []*api.EtcdMembers{out}}, nil
}

// EtcdRemoveMemberByID removes one.
func (m *Machine) EtcdRemoveMemberByID(_ context.Context, in *api.EtcdRemoveMemberByIDRequest) (*api.EtcdRemoveMemberByIDResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if err := m.etcdAnswers(); err != nil {
		return nil, err
	}
	if m.world.members[in.GetMemberId()].cluster != m.config.Cluster().ID() {
		return nil, status.Error(codes.NotFound, "etcdserver: member not found")
	}
	delete(m.world.members, in.GetMemberId())
	return &api.EtcdRemoveMemberByIDResponse{Messages: []*api.EtcdRemoveMemberByID{{}}}, nil
}

// Members are the names of the members of all etcds.
func (w *World) Members() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, of := range w.members {
		out = append(out, of.name)
	}
	slices.Sort(out)
	return out
}
