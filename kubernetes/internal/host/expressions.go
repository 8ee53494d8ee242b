package host

import (
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// by is what comes or goes by a device, or by any other.
func by(key expr.MetaKey, is expr.CmpOp, device string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, device)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: is, Register: 1, Data: name}}
}

// source loads a packet's.
func source(v4 bool) *expr.Payload {
	if v4 {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
}

// isUDP has UDP right behind the header of an address's family.
func isUDP(of netip.Addr) []expr.Any {
	protocol := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 9, Len: 1}
	if !of.Is4() {
		protocol.Offset = 6
	}
	return append(ofFamily(familyOf(of)), protocol, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}})
}

// written puts an address where another is loaded from, and has the checksum agree: of IPv4 its own, and UDP's where there is one; of IPv6 UDP's,
// which there always is, six bytes behind the header.
func written(place *expr.Payload, address netip.Addr) []expr.Any {
	write := &expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: 1, Base: place.Base, Offset: place.Offset, Len: place.Len, CsumType: expr.CsumTypeInet, CsumOffset: 40 + 6,
	}
	if address.Is4() {
		write.CsumOffset, write.CsumFlags = 10, unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR
	}
	return []expr.Any{&expr.Immediate{Register: 1, Data: address.AsSlice()}, write}
}
