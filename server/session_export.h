// What a server keeps of a session, for those who look for a fault.

#ifndef CPFEED_SERVER_SESSION_EXPORT_H_
#define CPFEED_SERVER_SESSION_EXPORT_H_

#include "cpfeed/v1/admin.pb.h"
#include "server/session_host.h"

namespace cpfeed {

// All but bytes. The session goes on meanwhile.
v1::ExportedSession ExportSession(const SessionHost& host);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_EXPORT_H_
