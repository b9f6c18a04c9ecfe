// tokenize.py as a string, so that the program needs no file beside it.

#ifndef CPFEED_CLIENT_DOCUMENTS_TOKENIZE_SCRIPT_H_
#define CPFEED_CLIENT_DOCUMENTS_TOKENIZE_SCRIPT_H_

namespace cpfeed {

extern const char kTokenizeScript[];

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_TOKENIZE_SCRIPT_H_
