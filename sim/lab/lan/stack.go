package lan

import (
	"context"
	"errors"
	"net/netip"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// mtu is the maximum size of a packet.
const mtu = 1500

// nic is the only card of a station.
const nic tcpip.NICID = 1

// station is a simulated machine in this process: a TCP/IP stack with one card.
type station struct {
	stack *stack.Stack
	link  *channel.Endpoint
	mac   mac
}

func newStation(m mac, addr netip.Prefix) (*station, error) {
	s := &station{mac: m, link: channel.New(queued, mtu+headerSize, tcpip.LinkAddress(m[:]))}
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	sack := tcpip.TCPSACKEnabled(true)
	subnet, err := tcpip.NewSubnet(tcpAddr(addr.Masked().Addr()), tcpip.MaskFromBytes(maskOf(addr)))
	if err != nil {
		s.close()
		return nil, err
	}
	for _, wrong := range []tcpip.Error{
		s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack),
		s.stack.CreateNIC(nic, ethernet.New(s.link)),
		s.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{
			Protocol:          ipv4.ProtocolNumber,
			AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpAddr(addr.Addr()), PrefixLen: addr.Bits()},
		}, stack.AddressProperties{}),
	} {
		if wrong != nil {
			s.close()
			return nil, errors.New(wrong.String())
		}
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: subnet, NIC: nic}})
	return s, nil
}

func (s *station) close() {
	s.link.Close()
	s.stack.Destroy()
}

// take receives a frame from the network.
func (s *station) take(frame []byte) {
	if m := destination(frame); m != s.mac && !m.group() {
		return
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	s.link.InjectInbound(0, p)
	p.DecRef()
}

// send hands over what the station sends, until ctx ends or it is closed.
func (s *station) send(ctx context.Context, put func(frame []byte)) {
	for {
		p := s.link.ReadContext(ctx)
		if p == nil {
			return
		}
		frame := p.ToView().ToSlice()
		p.DecRef()
		put(frame)
	}
}

func tcpAddr(a netip.Addr) tcpip.Address { return tcpip.AddrFrom4(a.As4()) }

// addrOf is the other way round. The zero Addr is none.
func addrOf(a tcpip.Address) netip.Addr {
	out, _ := netip.AddrFromSlice(a.AsSlice())
	return out
}

func maskOf(p netip.Prefix) []byte {
	bits := ^uint32(0) << (32 - p.Bits())
	return []byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}
}
