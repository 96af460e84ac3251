/*
 * rate.c - see rate.h. In thousandths of a token, of which per_second come each millisecond: whole numbers, so nothing is lost.
 */
#include "core/rate.h"

enum { TOKEN = 1000 };

int64_t co_rate_take(struct co_rate *rate, int64_t per_second, int64_t burst, int64_t now_ms)
{
    if (per_second <= 0)
        return 0;
    int64_t size = (burst > 0 ? burst : per_second) * TOKEN;
    int64_t passed = now_ms > rate->at_ms ? now_ms - rate->at_ms : 0;
    if (rate->missing > size)
        rate->missing = size; /* it has become smaller */
    rate->missing = passed >= rate->missing / per_second + 1 ? 0 : rate->missing - passed * per_second;
    rate->at_ms = now_ms > rate->at_ms ? now_ms : rate->at_ms;
    if (rate->missing + TOKEN <= size) {
        rate->missing += TOKEN;
        return 0;
    }
    return (rate->missing + TOKEN - size + per_second - 1) / per_second;
}
