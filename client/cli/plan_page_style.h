// How the page of plan_page.h looks, at any width.

#ifndef CPFEED_CLIENT_CLI_PLAN_PAGE_STYLE_H_
#define CPFEED_CLIENT_CLI_PLAN_PAGE_STYLE_H_

namespace cpfeed {

inline constexpr char kPlanPageStyle[] = R"(
:root { color-scheme: light; }
body { font: 14px/1.45 system-ui, sans-serif; color: #1c2733; margin: 0 auto;
       max-width: 1400px; padding: 16px 20px 40px; background: #f6f8fa; }
h1 { font-size: 20px; margin: 8px 0 2px; }
h2 { font-size: 16px; margin: 0 0 2px; }
.note { color: #5a6673; margin: 0 0 14px; overflow-wrap: anywhere; }
.cards { display: grid; gap: 16px; margin-top: 16px;
         grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); }
.card { background: #fff; border: 1px solid #d8dee4; border-radius: 8px;
        padding: 14px 16px; min-width: 0; }
.strip { display: block; box-sizing: border-box; width: 100%; border: 1px solid #d8dee4;
         background: #eef1f4; }
.ranks { display: grid; grid-template-columns: max-content 1fr; gap: 1px 8px;
         align-items: center; margin: 8px 0 12px; }
.ranks span { font-size: 12px; text-align: right; }
.bars { margin: 10px 0; }
.bars div { display: flex; justify-content: space-between; font-size: 13px; }
.bars svg { display: block; width: 100%; height: 56px; background: #eef1f4; }
.refused { color: #a1260d; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: right; padding: 2px 6px; border-bottom: 1px solid #e6eaee; }
th:first-child, td:first-child { text-align: left; }
)";

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PLAN_PAGE_STYLE_H_
