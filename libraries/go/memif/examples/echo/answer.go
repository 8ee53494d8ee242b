package main

import "encoding/binary"

// mac is our address: locally administered.
var mac = []byte{0x02, 0xfe, 0, 0, 0, 3}

// answer turns a frame into its answer, in place; says whether it asks for one: ARP requests (RFC 826), echo requests (RFC 792, RFC
// 4443), neighbour solicitations (RFC 4861) and UDP datagrams (RFC 862) for any address and port.
func answer(frame []byte) bool {
	if len(frame) < 14 {
		return false
	}
	packet := frame[14:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0806:
		if !answerARP(packet) {
			return false
		}
	case 0x0800:
		if !answerPing(packet) && !answerUDP(packet) {
			return false
		}
	case 0x86dd:
		if !answerICMPv6(packet) && !answerUDPv6(packet) {
			return false
		}
	default:
		return false
	}
	copy(frame, frame[6:12])
	copy(frame[6:], mac)
	return true
}

func answerARP(arp []byte) bool {
	if len(arp) < 28 || binary.BigEndian.Uint64(arp) != 0x0001_0800_0604_0001 {
		return false
	}
	var wanted [4]byte
	copy(wanted[:], arp[24:28])
	arp[7] = 2
	copy(arp[18:28], arp[8:18])
	copy(arp[8:], mac)
	copy(arp[14:], wanted[:])
	return true
}

func answerPing(ip []byte) bool {
	if len(ip) < 28 || ip[0] != 0x45 || ip[9] != 1 || ip[20] != 8 {
		return false
	}
	swap(ip[12:16], ip[16:20])
	ip[20] = 0
	// The checksum grows by what the type shrinks (RFC 1624).
	sum := uint32(binary.BigEndian.Uint16(ip[22:])) + 0x0800
	binary.BigEndian.PutUint16(ip[22:], uint16(sum+sum>>16))
	return true
}

// answerUDP sends a datagram back. Neither checksum minds who is whom.
func answerUDP(ip []byte) bool {
	if len(ip) < 28 || ip[0] != 0x45 || ip[9] != 17 || binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 {
		return false
	}
	swap(ip[12:16], ip[16:20])
	swap(ip[20:22], ip[22:24])
	return true
}

func answerUDPv6(ip []byte) bool {
	if len(ip) < 48 || ip[0]>>4 != 6 || ip[6] != 17 {
		return false
	}
	swap(ip[8:24], ip[24:40])
	swap(ip[40:42], ip[42:44])
	return true
}

func answerICMPv6(ip []byte) bool {
	if len(ip) < 48 || ip[0]>>4 != 6 || ip[6] != 58 {
		return false
	}
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if length < 8 || len(ip) < 40+length {
		return false
	}
	icmp := ip[40 : 40+length]
	switch {
	case icmp[0] == 128: // echo request
		icmp[0] = 129
		swap(ip[8:24], ip[24:40])
	case icmp[0] == 135 && length >= 32 && icmp[24] == 1 && icmp[25] == 1: // solicitation with the asker's address
		icmp[0] = 136
		icmp[4] = 0x60 // solicited, override
		icmp[24] = 2   // target's address
		copy(icmp[26:32], mac)
		copy(ip[24:40], ip[8:24])
		copy(ip[8:24], icmp[8:24])
	default:
		return false
	}
	icmp[2], icmp[3] = 0, 0
	binary.BigEndian.PutUint16(icmp[2:], checksum(ip[8:40], icmp))
	return true
}

// checksum is that of ICMPv6, over both addresses and the message (RFC 8200, section 8.1).
func checksum(addresses, message []byte) uint16 {
	sum := uint32(len(message)) + 58
	for _, bytes := range [][]byte{addresses, message} {
		for i, b := range bytes {
			sum += uint32(b) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func swap(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
